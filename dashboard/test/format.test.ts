import assert from "node:assert/strict";
import { test } from "node:test";
import { amount, bytes, disputeOutcome, leftAt, median, minutesLeft, perMinute, runsOutMs, short, shortened, span, success, work } from "../src/format.ts";

test("amounts keep what matters", () => {
  for (const [text, shown] of [
    ["0", "0"], ["0.031", "0.031"], ["0.000000053315518464", "0.0000000533"], ["12.5", "12.5"], ["1057000", "1,057,000"],
    ["1057000.25", "1,057,000"], ["3.000001", "3"], ["1234.56789", "1,234.56"], ["0.100000000000000001", "0.1"],
  ] as const) assert.equal(amount(text), shown);
});

test("spans, bytes and work have units", () => {
  assert.equal(span(-4), "0 ms");
  assert.equal(span(372), "372 ms");
  assert.equal(span(1_400), "1.4 s");
  assert.equal(span(61_000), "1 min 1 s");
  assert.equal(bytes(64), "64 B");
  assert.equal(bytes(1_536), "1.5 KiB");
  assert.equal(work(2_368), "2.4 kMAC");
});

test("ids are shortened, texts only in their ids", () => {
  const id = `0x${"ab".repeat(32)}`;
  assert.equal(short(id), "0xababab…abab");
  assert.equal(shortened(`job ${id} is paid`), "job 0xababab…abab is paid");
  assert.equal(short("0xabc"), "0xabc");
});

test("a provider without results has no share", () => {
  assert.equal(success({ accepted: 0, late: 0, rejected: 0, abandoned: 0 }), "no history");
  assert.equal(success({ accepted: 3, late: 1, rejected: 0, abandoned: 0 }), "75 % of 4");
});

test("the money of an endpoint runs out by its minutes and answers", () => {
  const job = { escrow: "4", deadline_ms: 10_000_000 };
  const meter = { minute: "0.5", vouchers: "1", paid: "2", started_ms: 60_000 };
  // 4 left and 2 paid, of which answers took 1: 5 for time, which are 10 minutes from the start on.
  assert.equal(runsOutMs(job, meter), 660_000);
  assert.equal(runsOutMs({ ...job, deadline_ms: 300_000 }, meter), 300_000);
  assert.equal(runsOutMs(job, { ...meter, minute: "0" }), 10_000_000);
  assert.equal(runsOutMs(job, { ...meter, started_ms: null }), undefined);
  // After 4 minutes 2 and 1 are owed, of which 2 were paid.
  assert.equal(leftAt("4", meter, 300_000), "3");
  assert.equal(leftAt("4", meter, 10_000_000), "0");
  assert.equal(leftAt("4", { ...meter, started_ms: null, vouchers: "0", paid: "0" }, 0), "4");
  assert.equal(minutesLeft(120_000, 60_000), "in 1 min 0 s");
  assert.equal(minutesLeft(60_000, 60_000), "now");
});

test("a dispute says how it ended", () => {
  const lease = { end: null, rejection: null, check: null };
  assert.match(disputeOutcome({ state: "disputed", leases: [{ ...lease, check: { dispute: {} } }] }), /goes on/);
  assert.match(disputeOutcome({ state: "paid", leases: [lease] }), /was accepted/);
  assert.match(disputeOutcome({ state: "verifying", leases: [lease] }), /so far; the job is verifying/);
  const rejected = { ...lease, rejection: { code: 98, check: "nothing was shown" } };
  assert.match(disputeOutcome({ state: "queued", leases: [rejected] }), /provider lost: nothing was shown \(code 98\).* is queued/);
  assert.match(disputeOutcome({ state: "paid", leases: [rejected, lease] }), /done by another/);
});

test("times are counted by the minute, and those before are left out", () => {
  const now = 10 * 60_000;
  assert.deepEqual(perMinute([now, now - 1, now - 60_001, now - 400_000, now + 5], now, 3), [0, 1, 3]);
  assert.equal(median([3, 1, 2, 9]), 2);
  assert.equal(median([]), 0);
});
