import assert from "node:assert/strict";
import { test } from "node:test";
import { amount, bytes, short, shortened, span, success, work } from "../src/format.ts";

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
