// Ordering from the page, on networks labelled development, whose gateway orders for the development account; and talking to a
// language model through the OpenAI API, with a key.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, Refusal, type CloudPrices, type Inference, type Job, type JobReceipt, type Mode, type Model, type ModelPage, type ModePrice, type QuotePage, type Status } from "./api.ts";
import { costsOf, daysAgo, dollars, hardwareName, hardwareOf } from "./clouds.ts";
import { amount, bytes, count, span, work } from "./format.ts";
import { useEvents, useLive } from "./live.ts";
import { Bars, Facts, Id, Section, Shown, State, Tgrid } from "./parts.tsx";
import { draw, isInk, resized, square, values } from "./picture.ts";
import { VerifyJob } from "./verify.tsx";

const DEVELOPMENT_KEY = "tensorgrid-development";

function said(error: unknown): string {
  if (error instanceof Refusal) return error.hint ? `${error.message}. ${error.hint}` : error.message;
  return error instanceof SyntaxError ? error.message : "the gateway does not answer";
}

/** Numbers of a JSON text, nested or not, or separated by commas and blanks. */
export function numbers(text: string): number[] {
  const trimmed = text.trim();
  const found: unknown = trimmed.startsWith("[") ? JSON.parse(trimmed) : trimmed.split(/[\s,;]+/).filter(Boolean).map(Number);
  const flat = (found as unknown[]).flat(8).map(Number);
  const wrong = flat.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0) throw new SyntaxError(`value ${wrong + 1} of the input is no number`);
  return flat;
}

const MODES: [Mode, string, string][] = [
  ["proof", "a proof", "every validator checks it, and you can, here in the browser"],
  ["sync", "a drawn committee", "it runs a short job again, and drawn parts of a long one"],
  ["optimistic", "a drawn validator", "then anybody may challenge the result for some seconds"],
  ["replicate", "several providers", "drawn ones, whose sealed results are compared"],
  ["recompute", "all validators", "each runs it again"],
  ["none", "nobody", "where the network allows it, as development networks do"],
];

export function Run() {
  const status = useLive<Status>("/v1/status", 5_000);
  return (
    <Section title="Order a run of a model">
      <Shown of={status} what="grid">{(it) =>
        it.development ? <RunForm /> : (
          <p class="note">This network's gateway has no account to order with: a wallet signs orders. <code>tensorgrid infer MODEL --input FILE</code> does, and asks before it spends.</p>
        )
      }</Shown>
    </Section>
  );
}

/** A model in the list of the OpenAI routes; `calls` is missing while the gateway has not read it. */
type Listed = { id: string; tensorgrid: { model: string; served?: boolean; calls?: string[] } };

/** The models that write text: the ones whose calls include a chat. */
function useWriters(): Listed[] {
  const listed = useLive<{ data: Listed[] }>("/openai/v1/models", 5_000);
  return listed.value?.data.filter((it) => it.tensorgrid.calls?.includes("chat")) ?? [];
}

function RunForm() {
  const models = useLive<ModelPage>("/v1/models?limit=100", 5_000);
  const writers = useWriters();
  const isLanguage = (model: Model) => writers.some((it) => it.tensorgrid.model === model.id);
  const [model, setModel] = useState("");
  const usable = models.value?.items.filter((it) => it.state === "active" && it.facts?.tier === "TGX-1") ?? [];
  const chosen = usable.find((it) => it.id === model) ?? usable.find((it) => it.facts && square(it.facts.input_len) && it.facts.input_len >= 256 && !isLanguage(it)) ?? usable[0];
  if (!models.value) return <Shown of={models} what="models">{() => null}</Shown>;
  if (!chosen) return <p class="note">No model that takes numbers is registered: <code>tensorgrid model add-builtin</code> registers some.</p>;
  return (
    <>
      <fieldset class="choices">
        <legend>Model</legend>
        {usable.map((it) => (
          <label key={it.id}>
            <input type="radio" name="model" checked={it.id === chosen.id} onChange={() => setModel(it.id)} />
            <span><b>{it.name}</b><span class="small">{isLanguage(it) ? "a text" : takes(it)}, {it.facts && work(it.facts.macs)}</span></span>
          </label>
        ))}
      </fieldset>
      <OrderForm key={`${chosen.id} ${isLanguage(chosen)}`} model={chosen} language={isLanguage(chosen)} />
    </>
  );
}

/** What a model takes, in words. */
function takes(model: Model): string {
  const length = model.facts?.input_len ?? 0;
  const shape = square(length);
  return shape ? `a picture of ${shape.side} × ${shape.side}${shape.channels === 3 ? " in colour" : ""}` : `${count(length)} numbers`;
}

/** What ordering needs: the input, how it is checked, what it costs; then it is confirmed. */
function OrderForm({ model, language }: { model: Model; language: boolean }) {
  const [mode, setMode] = useState<Mode>(language ? "none" : model.facts?.provable ? "proof" : "sync");
  const [input, setInput] = useState<number[]>();
  const [prompt, setPrompt] = useState("");
  const [problem, setProblem] = useState("");
  const [quoted, setQuoted] = useState(false);
  const [running, setRunning] = useState<{ begin: number }>();
  const [outcome, setOutcome] = useState<Outcome>();
  const isReady = language ? prompt.trim() !== "" : input !== undefined;
  const order = async () => {
    setQuoted(false);
    setProblem("");
    setOutcome(undefined);
    const begin = performance.now();
    setRunning({ begin });
    try {
      if (language) {
        type Completion = { choices: { text: string }[]; tensorgrid?: { job?: string } };
        const body = { model: model.name, prompt, max_tokens: 48 };
        const answer = await post<Completion>("/openai/v1/completions", body, { authorization: `Bearer ${DEVELOPMENT_KEY}` });
        setOutcome({ text: answer.choices[0]?.text ?? "", job: answer.tensorgrid?.job ?? "", took: performance.now() - begin });
      } else {
        const answer = await post<Inference>("/v1/dev/infer", { model: model.id, mode, input });
        setOutcome({ answer, job: answer.job, took: performance.now() - begin });
      }
    } catch (error) {
      setProblem(said(error));
    }
    setRunning(undefined);
  };
  return (
    <form class="order" onSubmit={(event) => { event.preventDefault(); setProblem(""); if (isReady) setQuoted(true); else setProblem(language ? "Type what the model goes on from." : "Choose a picture or type numbers first."); }}>
      <div class="columns">
        <div>
          <h3>Input</h3>
          {language
            ? <label>text that it goes on from<textarea rows={5} value={prompt} onInput={(event) => setPrompt(event.currentTarget.value)} placeholder="To be, or not" /></label>
            : <NumbersInput model={model} give={setInput} />}
          {!language && (
            <fieldset class="choices">
              <legend>Checked by</legend>
              <Modes model={model} mode={mode} choose={setMode} />
            </fieldset>
          )}
        </div>
        <Quote model={model} mode={mode} />
      </div>
      <p class="actions"><button type="submit" disabled={running !== undefined}>{running ? "Running…" : "Review the order"}</button> <span class="small">paid with play money of the development account</span></p>
      {problem && <p class="note bad" role="alert">{problem}</p>}
      {quoted && <Confirm model={model} mode={mode} language={language} confirm={() => void order()} cancel={() => setQuoted(false)} />}
      {running && <Running model={model.id} />}
      {outcome && <Answer of={outcome} />}
    </form>
  );
}

/** A picture or numbers. */
function NumbersInput({ model, give }: { model: Model; give: (input: number[] | undefined) => void }) {
  const shape = square(model.facts?.input_len ?? 0);
  const [text, setText] = useState("");
  const [over, setOver] = useState(false);
  const [problem, setProblem] = useState("");
  const [shown, setShown] = useState<number[]>();
  const [picture, setPicture] = useState<{ data: Uint8ClampedArray; name: string }>();
  const [inverted, setInverted] = useState(false);
  const canvas = useRef<HTMLCanvasElement>(null);
  const length = model.facts?.input_len ?? 0;
  const set = (all: number[] | undefined) => {
    setShown(all);
    give(all && all.length > 0 ? all : undefined);
  };
  useEffect(() => {
    if (shape && shown && canvas.current) draw(canvas.current, shown, shape);
  }, [shown]);
  const typed = (text: string) => {
    setText(text);
    setPicture(undefined);
    setProblem("");
    try {
      const all = text.trim() === "" ? undefined : numbers(text);
      if (all && all.length !== length) setProblem(`${count(all.length)} numbers of ${count(length)}`);
      set(all?.length === length ? all : undefined);
    } catch (error) {
      setProblem(said(error));
      set(undefined);
    }
  };
  const take = async (file: File | undefined) => {
    if (!file) return;
    setProblem("");
    try {
      if (!file.type.startsWith("image/")) return typed(await file.text());
      if (!shape) throw new SyntaxError(`the model takes ${count(length)} numbers, which are no square picture`);
      const data = await resized(await createImageBitmap(file), shape.side);
      const plain = values(data, shape, false);
      const ink = shape.channels === 1 && isInk(plain, shape.side);
      setPicture({ data, name: file.name });
      setInverted(ink);
      set(values(data, shape, ink));
      setText("");
    } catch (error) {
      setProblem(error instanceof DOMException ? `${file.name} is no picture that this browser reads` : said(error));
    }
  };
  const invert = (on: boolean) => {
    setInverted(on);
    if (picture && shape) set(values(picture.data, shape, on));
  };
  const paste = (event: ClipboardEvent) => {
    const file = event.clipboardData?.files[0];
    if (file) {
      event.preventDefault();
      void take(file);
    }
  };
  return (
    <div onPaste={paste} onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={(event) => { event.preventDefault(); setOver(false); void take(event.dataTransfer?.files[0]); }}>
      {shape && (
        <div class="picture">
          <label class={over ? "drop over" : "drop"}>
            <input type="file" accept="image/*,.json,.txt" aria-label="a picture, or a file of numbers" onChange={(event) => void take(event.currentTarget.files?.[0])} />
            <span>{picture ? <><b>{picture.name}</b>, as the model sees it</> : "Drop a picture here, paste it, or choose a file"}</span>
          </label>
          <figure>
            <canvas ref={canvas} width={shape.side} height={shape.side} role="img" aria-label={shown ? `the input, ${shape.side} by ${shape.side}` : "no input yet"} class={shown ? undefined : "empty"} />
            <figcaption class="small">{shape.side} × {shape.side}{shape.channels === 3 && ", in colour"}</figcaption>
          </figure>
        </div>
      )}
      {picture && <label class="check"><input type="checkbox" checked={inverted} onChange={(event) => invert(event.currentTarget.checked)} /> light and dark turned around {inverted && <span class="small">(models of digits know light strokes on dark ground)</span>}</label>}
      <details open={!shape}>
        <summary>or {count(length)} numbers</summary>
        <label>numbers, as JSON or separated by commas<textarea rows={5} value={text} onInput={(event) => typed(event.currentTarget.value)} spellcheck={false} /></label>
      </details>
      {problem && <p class="note bad" role="status">{problem}</p>}
    </div>
  );
}

/** The ways of checking a result, with what each would cost. */
function Modes({ model, mode, choose }: { model: Model; mode: Mode; choose: (mode: Mode) => void }) {
  const prices = useLive<ModePrice[]>(`/v1/models/${model.id}/modes`, 5_000);
  const of = (name: Mode) => prices.value?.find((price) => price.mode === name);
  return (
    <>
      {MODES.map(([name, who, how]) => {
        const price = of(name);
        const refused = price?.refused;
        return (
          <label key={name} class={refused ? "off" : undefined}>
            <input type="radio" name="mode" checked={mode === name} disabled={refused != null} onChange={() => choose(name)} />
            <span><b>{who}</b> {price?.price && <span class="price">{amount((Number(price.price) + Number(price.verification_fee)).toFixed(9))}</span>}<span class="small">{refused ?? how}</span></span>
          </label>
        );
      })}
    </>
  );
}

/** Bytes of the file with the program and weights, which a provider needs; nothing until it is known. */
function useWeights(model: Model): number | undefined {
  const [size, setSize] = useState<number>();
  useEffect(() => {
    const abort = new AbortController();
    fetch(`/v1/blobs/${model.weights_blob}/chunks`, { signal: abort.signal })
      .then((response) => (response.ok ? response.arrayBuffer() : undefined))
      .then((all) => all && all.byteLength >= 8 && setSize(Number(new DataView(all).getBigUint64(0, true))))
      .catch(() => undefined);
    return () => abort.abort();
  }, [model.weights_blob]);
  return size;
}

const PRECISION: Record<string, string> = { "TGX-1": "integers of 8 bits, sums of 32 (TGX-1): the same bits on every machine", "TGF-1": "floats of 32 bits (TGF-1): the same bits on every machine" };

/** What a run needs and would cost now. */
function Quote({ model, mode }: { model: Model; mode: Mode }) {
  const quotes = useLive<QuotePage>(`/v1/models/${model.id}/quotes?mode=${mode}&limit=20`, 3_000);
  const weights = useWeights(model);
  const clouds = useClouds();
  const best = quotes.value?.items.find((quote) => quote.chosen) ?? quotes.value?.items.find((quote) => quote.serves);
  return (
    <div class="quote">
      <h3>Estimate</h3>
      <Facts of={[
        ["work", model.facts ? work(model.facts.macs) : ""],
        ["model file", weights === undefined ? "…" : bytes(weights)],
        ["precision", PRECISION[model.facts?.tier ?? ""] ?? model.facts?.tier ?? ""],
        ["next provider", best ? <><Id of={best.offer.provider} to="provider" /> <span class="small">{best.offer.terms.hardware}</span></> : quotes.value ? "none that fits now" : "…"],
        ["its memory", best ? bytes(best.offer.terms.memory_bytes) : ""],
        ["takes about", best ? span(best.eta_ms) : ""],
        ["price", best?.price ? <><Tgrid of={best.price} /> TGRID</> : ""],
        ["verification", best ? <><Tgrid of={best.verification_fee} /> TGRID</> : ""],
        ["at most", best ? <><Tgrid of={best.max_price} /> TGRID are locked; what is not spent comes back</> : ""],
      ]} />
      {best && clouds && <InClouds prices={clouds} quote={best} />}
      {quotes.value && !best && <p class="note">{quotes.value.items.length === 0 ? "No provider offers anything yet." : `No offer fits: ${quotes.value.items[0]?.lacks.join(", ")}.`}</p>}
      {quotes.error && <p class="note bad">{quotes.error}</p>}
    </div>
  );
}

/** What clouds ask for hardware, as the node tells it; nothing if it does not. */
function useClouds(): CloudPrices | undefined {
  const [prices, setPrices] = useState<CloudPrices>();
  useEffect(() => {
    const abort = new AbortController();
    // Once: a node has one table for as long as it runs.
    get<CloudPrices>("/v1/clouds", abort.signal).then(setPrices).catch(() => undefined);
    return () => abort.abort();
  }, []);
  return prices;
}

/** Rows that are shown, the cheapest first. */
const CLOUDS_SHOWN = 3;

/** What clouds would take for the hardware and the time of a quote, each row with its day and page; nothing if no row is of such hardware. */
function InClouds({ prices, quote }: { prices: CloudPrices; quote: QuotePage["items"][number] }) {
  const { machine } = quote.offer.terms;
  const hardware = hardwareOf(machine);
  const costs = costsOf(prices, hardware, quote.eta_ms);
  if (costs.length === 0) return null;
  const unsaid = !hardware.gpu && !machine?.cpu_milli;
  const here = quote.price && prices.usd_per_tgrid ? (Number(quote.price) + Number(quote.verification_fee)) * prices.usd_per_tgrid : undefined;
  return (
    <>
      <h3>In a cloud</h3>
      <p class="small">{hardwareName(hardware)}{unsaid && ", of which the offer says no number,"} for {span(quote.eta_ms)}{here !== undefined && `; here ${dollars(here)} by this node's table`}:</p>
      <ul class="clouds">
        {costs.slice(0, CLOUDS_SHOWN).map(({ row, usd }) => (
          <li key={`${row.cloud} ${row.product}`}><b>{dollars(usd)}</b> at {row.cloud} <span class="small">{row.product}, {dollars(row.usd_per_hour)} an hour; <a href={row.source} rel="noreferrer">read on {row.read_on}, {daysAgo(row.read_on, Date.now())}</a></span></li>
        ))}
      </ul>
      <p class="small">Notes of those pages, not asked for now. Nobody there checks a result, and idle time is paid.</p>
    </>
  );
}

/** Asks once more before money is spent. */
function Confirm({ model, mode, language, confirm, cancel }: { model: Model; mode: Mode; language: boolean; confirm: () => void; cancel: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const quotes = useLive<QuotePage>(`/v1/models/${model.id}/quotes?mode=${mode}&limit=20`, 3_000);
  const best = quotes.value?.items.find((quote) => quote.chosen) ?? quotes.value?.items.find((quote) => quote.serves);
  useEffect(() => dialog.current?.showModal(), []);
  const total = best?.price ? amount((Number(best.price) + Number(best.verification_fee)).toFixed(9)) : undefined;
  const who = MODES.find(([name]) => name === mode)?.[1];
  return (
    <dialog ref={dialog} aria-labelledby="confirm" onClose={cancel} onCancel={cancel}>
      <h2 id="confirm">Order one run of {model.name}?</h2>
      <p>{total ? <>It costs about <b>{total} TGRID</b> of play money{best && <>, takes about {span(best.eta_ms)}</>}{language ? ", and grows with the words that are written." : <>, and is checked by {who}.</>}</> : "No provider fits now: the job waits in the queue until one does, or its time is over."}</p>
      <p class="actions"><button type="button" onClick={confirm}>Order it</button><button type="button" class="plain" onClick={cancel}>Not now</button></p>
    </dialog>
  );
}

/** The job while it goes on: the newest one on the model since this was shown. */
function Running({ model }: { model: string }) {
  const events = useEvents();
  // Those that came after this was shown.
  const [before] = useState(events[0]);
  const at = before ? events.indexOf(before) : -1;
  const since = at < 0 ? events : events.slice(0, at);
  const queued = [...since].reverse().find((event) => event.job && event.kind === "job_queued" && (!event.model || event.model === model));
  return (
    <div class="running" role="status">
      {queued?.job ? <RunningJob id={queued.job} model={model} /> : <p class="note" aria-busy="true">The order is signed and sent…</p>}
    </div>
  );
}

function RunningJob({ id, model }: { id: string; model: string }) {
  const job = useLive<Job>(`/v1/jobs/${id}`);
  if (!job.value || job.value.model !== model) return <p class="note" aria-busy="true">The order waits for its block…</p>;
  return (
    <>
      <p><a href={`#/job/${id}`}>The job</a> is <State of={job.value.state} />{job.value.leases[0] && <> at <Id of={job.value.leases[0].provider} to="provider" /></>}</p>
      <ol class="states">{job.value.history.map((step, index) => <li key={index}>{step.state}</li>)}</ol>
    </>
  );
}

type Outcome = { job: string; took: number; answer?: Inference; text?: string };

function Answer({ of }: { of: Outcome }) {
  const answer = of.answer?.answer ?? undefined;
  const all = answer?.values ?? of.answer?.output ?? [];
  const top = answer?.label ?? of.answer?.top;
  return (
    <Section title="Answer" aside={`after ${span(of.took)}`}>
      <div role="status">
        {of.text !== undefined ? <pre class="text">{of.text}</pre> : <p class="answer"><span class="small">greatest of {count(all.length)}</span><strong>{top}</strong></p>}
        {all.length > 1 && all.length <= 20 && <Bars values={all} label={`the ${all.length} values of the output`} />}
        {of.job && <p><a href={`#/job/${of.job}`}>The job</a> has its timeline and receipt.</p>}
      </div>
      {of.answer && of.answer.receipt.job.mode === "proof" && <VerifyJob of={of.answer.receipt} />}
    </Section>
  );
}

type Message = { role: "user" | "assistant"; content: string; job?: string };

export function Chat() {
  const status = useLive<Status>("/v1/status", 5_000);
  const writers = useWriters();
  const [key, setKey] = useState("");
  const [model, setModel] = useState("");
  const [messages, setMessages] = useState<Message[]>([]);
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const used = key || (status.value?.development ? DEVELOPMENT_KEY : "");
  const name = model || writers[0]?.id;
  useEffect(() => {
    if (messages.length > 0) end.current?.scrollIntoView({ block: "nearest" });
  }, [messages.length, busy]);
  const send = async (event?: Event) => {
    event?.preventDefault();
    if (!name || busy || text.trim() === "") return;
    const asked: Message[] = [...messages, { role: "user", content: text }];
    setMessages(asked);
    setText("");
    setBusy(true);
    setProblem("");
    try {
      const body = { model: name, max_tokens: 120, messages: asked.map(({ role, content }) => ({ role, content })) };
      type Completion = { choices: { message: { content: string } }[]; tensorgrid?: { job?: string } };
      const answered = await post<Completion>("/openai/v1/chat/completions", body, { authorization: `Bearer ${used}` });
      const content = answered.choices[0]?.message.content ?? "";
      setMessages([...asked, { role: "assistant", content, ...(answered.tensorgrid?.job ? { job: answered.tensorgrid.job } : {}) }]);
    } catch (error) {
      // What was asked stays in the field, to be sent again.
      setMessages(messages);
      setText(text);
      setProblem(said(error));
    }
    setBusy(false);
    field.current?.focus();
  };
  return (
    <Section title="Chat" aside="each answer is a job of its own">
      {writers.length === 0 && <p class="note">This gateway knows of no model that writes text: <code>tensorgrid model add-builtin</code> registers a small one, which is listed some seconds later.</p>}
      <ol class="chat" aria-live="polite" aria-label="conversation">
        {messages.length === 0 && !busy && <li class="hello"><p>Write something, and a provider of the grid writes on.</p><p class="small">The built-in gpt-bytes was trained on a megabyte of plays: it goes on from a text, and knows nothing.</p></li>}
        {messages.map((message, index) => (
          <li key={index} class={message.role}><span class="unseen">{message.role === "user" ? "you" : "the model"}: </span><pre>{message.content}</pre>{message.job && <JobLine id={message.job} />}</li>
        ))}
        {busy && <li class="assistant" aria-busy="true"><span class="typing">a provider writes<i>…</i></span></li>}
      </ol>
      <div ref={end} />
      {problem && <p class="note bad" role="alert">{problem}</p>}
      <form onSubmit={send}>
        <label><span class="unseen">message</span><textarea class="message" ref={field} rows={2} value={text} placeholder="Message; Enter sends, Shift and Enter begins a line" onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) void send(event); }} required /></label>
        <div class="fields">
          {writers.length > 0 && <label>model <select value={name} onChange={(event) => setModel(event.currentTarget.value)}>{writers.map((it) => <option key={it.tensorgrid.model} value={it.id}>{it.id}</option>)}</select></label>}
          <label>API key <input type="password" autocomplete="off" value={key} placeholder={status.value?.development ? "the development key" : "tensorgrid api-key new"} onInput={(event) => setKey(event.currentTarget.value)} /></label>
          <button type="submit" disabled={busy || !used || !name}>Send</button>
          {messages.length > 0 && <button type="button" class="plain" disabled={busy} onClick={() => { setMessages([]); field.current?.focus(); }}>New conversation</button>}
        </div>
      </form>
    </Section>
  );
}

/** The job of an answer: how it was checked and what it cost. */
function JobLine({ id }: { id: string }) {
  const [receipt, setReceipt] = useState<JobReceipt>();
  useEffect(() => {
    get<JobReceipt>(`/v1/jobs/${id}/receipt`).then(setReceipt).catch(() => undefined);
  }, [id]);
  return <p class="small"><a href={`#/job/${id}`}>job {id.slice(0, 10)}…</a>{receipt && <> · <Tgrid of={receipt.settlement.price} /> TGRID · checked by {MODES.find(([name]) => name === receipt.job.mode)?.[1] ?? receipt.job.mode}</>}</p>;
}
