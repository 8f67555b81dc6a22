// The dashboard in headless Chromium, from outside: `cargo xtask browser` starts a grid and runs this against it.
//
// Orders a digit, watches it finish, verifies its proof in the page and offline, sees a changed proof refused, chats, looks at every
// page in light and dark and as wide as a phone with axe, and orders once more by the keyboard alone. Writes the README's pictures.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { chromium, type BrowserContext, type Locator, type Page } from "playwright-core";

const { values } = parseArgs({ options: { url: { type: "string" }, chromium: { type: "string" }, pictures: { type: "string" }, root: { type: "string" } } });
const { url, chromium: executablePath, pictures, root } = values;
assert(url && executablePath && root, "--url, --chromium and --root are needed");

const digit = join(root, "examples/digit.json");
const digits = join(root, "models/digits/digits.bin");

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WAIT = 120_000;
const WIDE = { width: 1280, height: 860 };
const PHONE = { width: 390, height: 844 };

function say(text: string) {
  process.stdout.write(`${text}\n`);
}

async function picture(page: Page, name: string, fullPage = false) {
  if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`), fullPage, animations: "disabled" });
}

async function open(page: Page, route: string) {
  await page.goto(`${url}/#/${route}`);
  await page.locator("main").waitFor();
}

/** The first seven of the digits that no model was trained on (`models/digits`), as ink on paper in a picture of 224 by 224. */
async function seven(page: Page): Promise<Buffer> {
  const all = readFileSync(digits);
  const records = Array.from({ length: all.readUInt32LE(8) }, (_, at) => all.subarray(14 + 66 * at, 14 + 66 * (at + 1)));
  const found = records.find((record) => record[64] === 7 && record[65] === 1);
  assert(found, "there is an unseen seven");
  const text = await page.evaluate((levels) => {
    const small = new OffscreenCanvas(8, 8);
    const large = document.createElement("canvas");
    large.width = large.height = 224;
    const [from, to] = [small.getContext("2d"), large.getContext("2d")];
    if (!from || !to) throw new Error("no canvas");
    levels.forEach((level, at) => {
      const grey = Math.round(255 - (255 * level) / 16);
      from.fillStyle = `rgb(${grey} ${grey} ${grey})`;
      from.fillRect(at % 8, Math.floor(at / 8), 1, 1);
    });
    to.drawImage(small, 0, 0, 224, 224);
    return large.toDataURL("image/png");
  }, [...found.subarray(0, 64)]);
  return Buffer.from(text.split(",")[1] ?? "", "base64");
}

/** Orders a seven and reads the answer; gives the job's id. */
async function order(page: Page): Promise<string> {
  await open(page, "run");
  await page.getByRole("radio", { name: /lenet-digits/ }).check();
  await page.locator("input[type=file]").setInputFiles({ name: "seven.png", mimeType: "image/png", buffer: await seven(page) });
  await page.getByLabel("the input, 28 by 28").waitFor();
  assert(await page.getByLabel(/turned around/).isChecked(), "ink on paper is turned around");
  await page.getByRole("radio", { name: /a proof/ }).check();
  await page.getByText("TGRID are locked").waitFor();
  // Beside the quote, what the same machine would cost in a cloud, with the day and the page of the row.
  const row = page.locator(".clouds li").first();
  await row.waitFor();
  assert.match((await row.textContent()) ?? "", /^\$0\.0*[1-9]\d* at .+, \$\d+\.\d+ an hour; read on \d{4}-\d\d-\d\d, \d+ days ago$/);
  assert.match((await row.getByRole("link").getAttribute("href")) ?? "", /^https:/);
  await picture(page, "order");
  await page.getByRole("button", { name: "Review the order" }).click();
  await page.getByRole("dialog").getByText("TGRID").first().waitFor();
  await page.getByRole("button", { name: "Order it" }).click();
  const answer = page.locator(".answer strong");
  await answer.waitFor({ timeout: WAIT });
  assert.equal(await answer.textContent(), "7", "lenet-digits reads a seven");
  const link = page.getByRole("link", { name: "The job", exact: true }).last();
  const id = (await link.getAttribute("href"))?.split("/")[2];
  assert(id);
  return id;
}

async function verifyJob(page: Page, job: string) {
  await open(page, `job/${job}`);
  await page.getByRole("button", { name: "Verify in the browser" }).click();
  await page.locator(".verdict.right").waitFor({ timeout: WAIT });
  await page.getByRole("button", { name: "Verify again" }).evaluate((element) => element.scrollIntoView());
  await picture(page, "verified");
  // The same page with one bit of the proof changed on its way.
  const evidence = await page.getByRole("link", { name: "Save the proof" }).getAttribute("href");
  assert(evidence);
  await page.route(`**${evidence}`, async (route) => {
    const response = await route.fetch();
    const body = await response.body();
    const at = body.length - 100;
    body[at] = (body[at] ?? 0) ^ 1;
    await route.fulfill({ response, body });
  });
  await page.getByRole("button", { name: "Verify again" }).click();
  const wrong = page.locator(".verdict.wrong");
  await wrong.waitFor({ timeout: WAIT });
  await page.unroute(`**${evidence}`);
  say(`a changed proof: ${(await wrong.locator("p").first().textContent())?.trim()}`);
}

/** Verifies the files of a job without a network. */
async function verifyFiles(context: BrowserContext, page: Page, job: string) {
  type Receipt = { evidence: string; job: { model: string } };
  const receipt = (await (await fetch(`${url}/v1/jobs/${job}/receipt`)).json()) as Receipt;
  const model = (await (await fetch(`${url}/v1/models/${receipt.job.model}`)).json()) as { public_blob: string };
  const file = async (digest: string) => Buffer.from(await (await fetch(`${url}/v1/blobs/${digest}`)).arrayBuffer());
  const proof = { name: "digit.proof", mimeType: "application/octet-stream", buffer: await file(receipt.evidence) };
  const tgv = { name: "lenet.tgv", mimeType: "application/octet-stream", buffer: await file(model.public_blob) };
  await open(page, "verify");
  await page.getByText("The verifier is loaded").waitFor();
  await context.setOffline(true);
  await page.locator("input[type=file]").setInputFiles([proof, tgv]);
  await page.locator(".verdict.right").waitFor({ timeout: WAIT });
  await picture(page, "verify-file");
  for (const [what, buffer] of [["nothing", Buffer.alloc(0)], ["noise", Buffer.alloc(5_000, 0xa5)], ["half of it", proof.buffer.subarray(0, proof.buffer.length / 2)], ["the model", tgv.buffer]] as const) {
    await page.locator("input[type=file]").setInputFiles({ name: "other.proof", mimeType: "application/octet-stream", buffer });
    await page.locator(".verdict:not(.right)").waitFor({ timeout: WAIT });
    say(`${what} as a proof: ${(await page.locator(".verdict p").first().textContent())?.trim()}`);
    await page.locator("input[type=file]").setInputFiles([proof, tgv]);
    await page.locator(".verdict.right").waitFor({ timeout: WAIT });
  }
  await context.setOffline(false);
}

async function chat(page: Page) {
  await open(page, "chat");
  await page.getByLabel("message").fill("To be, or not to be: that is the question.");
  await page.keyboard.press("Enter");
  await page.locator(".chat .assistant .small").waitFor({ timeout: WAIT });
  await page.getByText(/checked by/).waitFor();
  await picture(page, "chat");
}

/** The page of a block: its certificate is checked there, and one that somebody changed does not hold. */
async function block(page: Page, job: string) {
  type Paid = { job: { history: { height: number }[] } };
  const receipt = (await (await fetch(`${url}/v1/jobs/${job}/receipt`)).json()) as Paid;
  const height = receipt.job.history[0]?.height;
  await open(page, `block/${height}`);
  await page.getByText(/signed by \d+ of the \d+ seats that this node names/).waitFor({ timeout: WAIT });
  // A node that names other seats.
  await page.route("**/v1/seats", async (route) => {
    const response = await route.fetch();
    const seats = (await response.json()) as { validators: { key: string }[] };
    for (const seat of seats.validators) seat.key = seat.key.replace(/.$/, (last) => (last === "0" ? "1" : "0"));
    await route.fulfill({ response, json: seats });
  });
  await page.reload();
  await page.getByText(/its certificate does not hold/).waitFor({ timeout: WAIT });
  await page.unroute("**/v1/seats");
}

type Fault = { id: string; impact: string | null; help: string; nodes: { target: unknown[] }[] };

/** The serious and critical faults that axe finds. */
async function faults(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: () => Promise<{ violations: Fault[] }> } };
    return (await axe.run()).violations;
  });
  return found.filter((fault) => fault.impact === "serious" || fault.impact === "critical").map((fault) => `${fault.id}: ${fault.help} (${fault.nodes.map((node) => node.target.join(" ")).slice(0, 4).join("; ")})`);
}

/** Every page, in light and dark, wide and as a phone. */
async function looks(page: Page, job: string): Promise<string[]> {
  type Paid = { lease: { provider: string }; job: { model: string; history: { height: number }[] } };
  const receipt = (await (await fetch(`${url}/v1/jobs/${job}/receipt`)).json()) as Paid;
  const height = receipt.job.history[0]?.height;
  const routes = ["", "run", "chat", "jobs", `job/${job}`, "blocks", `block/${height}`, "offers", `provider/${receipt.lease.provider}`, "models", `model/${receipt.job.model}`, "endpoints", "validators", "verify", "nowhere"];
  const wrong: string[] = [];
  await open(page, "");
  await page.evaluate(() => document.querySelector("main")?.append(document.createElement("img")));
  assert((await faults(page)).some((fault) => fault.startsWith("image-alt")), "axe finds a picture without a text");
  await page.reload();
  for (const [size, viewport] of [["wide", WIDE], ["phone", PHONE]] as const) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const route of routes) {
        const name = route.split("/")[0] || "overview";
        await open(page, route);
        await page.locator("main [aria-busy=true]").first().waitFor({ state: "detached" });
        // Long enough for the overview to see blocks come.
        await page.waitForTimeout(name === "overview" && pictures ? 2_500 : 300);
        const where = `${name} ${size} ${colorScheme}`;
        for (const fault of await faults(page)) wrong.push(`${where}: ${fault}`);
        const width = await page.evaluate(() => document.scrollingElement?.scrollWidth ?? 0);
        if (width > viewport.width) wrong.push(`${where}: ${width} pixels wide, of ${viewport.width}`);
        if (process.env.EVERY_PICTURE) await page.screenshot({ path: join(process.env.EVERY_PICTURE, `${name}-${size}-${colorScheme}.png`), fullPage: true });
        if (size === "wide" && colorScheme === "light" && ["overview", "block", "provider"].includes(name)) await picture(page, name);
        if (size === "wide" && colorScheme === "dark" && name === "overview") await picture(page, "overview-dark");
        if (size === "phone" && colorScheme === "dark" && name === "job") await picture(page, "phone");
      }
    }
  }
  await page.setViewportSize(WIDE);
  await page.emulateMedia({ colorScheme: "light" });
  return wrong;
}

/** Presses Tab until something has the focus. */
async function tab(page: Page, to: Locator) {
  for (let pressed = 0; pressed < 80; pressed++) {
    if (await to.evaluate((element) => element === document.activeElement).catch(() => false)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`the keyboard does not come to ${to}`);
}

/** Orders with the keyboard alone. */
async function keyboard(page: Page) {
  await page.goto(`${url}/`);
  await tab(page, page.getByRole("navigation", { name: "pages" }).getByRole("link", { name: "Order" }));
  await page.keyboard.press("Enter");
  await page.getByRole("radio", { name: /lenet-digits/ }).waitFor();
  await tab(page, page.getByRole("radio", { name: /lenet-digits/ }));
  for (let pressed = 0; pressed < 4 && !(await page.getByRole("radio", { name: /mlp-digits/ }).isChecked()); pressed++) await page.keyboard.press("ArrowUp");
  const summary = page.locator("summary", { hasText: "numbers" });
  await tab(page, summary);
  await page.keyboard.press("Enter");
  const numbers = page.getByRole("textbox", { name: /numbers/ });
  await tab(page, numbers);
  const { input_data } = JSON.parse(readFileSync(digit, "utf8")) as { input_data: number[][] };
  await page.keyboard.insertText(JSON.stringify(input_data));
  await tab(page, page.getByRole("button", { name: "Review the order" }));
  await page.keyboard.press("Enter");
  await tab(page, page.getByRole("button", { name: "Order it" }));
  await page.keyboard.press("Enter");
  await page.locator(".answer strong").waitFor({ timeout: WAIT });
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const context = await browser.newContext({ viewport: WIDE, colorScheme: "light" });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(`an error of the page: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && /Content Security Policy/.test(message.text()) && problems.push(message.text()));
  await open(page, "");
  await page.getByText("live", { exact: true }).waitFor();
  const job = await order(page);
  say(`ordered a seven, and it was read as one: job ${job}`);
  await verifyJob(page, job);
  say("verified its proof in the page");
  await verifyFiles(context, page, job);
  say("verified its files without a network");
  await block(page, job);
  say("checked the certificate of a block, and saw that seats of others did not sign it");
  await chat(page);
  say("chatted");
  await keyboard(page);
  say("ordered by the keyboard alone");
  problems.push(...(await looks(page, job)));
  assert.deepEqual(problems, [], problems.join("\n"));
  say("every page: no serious fault, in light and dark, wide and as a phone");
} finally {
  await browser.close();
}
