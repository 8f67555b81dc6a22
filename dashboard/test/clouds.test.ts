import assert from "node:assert/strict";
import { test } from "node:test";
import { costsOf, daysAgo, dollars, hardwareName, hardwareOf } from "../src/clouds.ts";

const CORES = { gpus: 0, gpu: "other", cpu_milli: 0 };
const HOUR = 3_600_000;

const row = (more: object) => ({ cloud: "C", product: "p", gpu: null, gpus: 0, vcpus: 0, usd_per_hour: 8, read_on: "2026-11-01", source: "https://c", ...more });

test("a machine is its GPUs or its cores", () => {
  assert.deepEqual(hardwareOf(CORES), { count: 1 });
  assert.deepEqual(hardwareOf(undefined), { count: 1 });
  assert.deepEqual(hardwareOf({ ...CORES, cpu_milli: 2_500 }, 4), { count: 3 });
  const gpus = { gpus: 8, gpu: "h200", cpu_milli: 2_500 };
  assert.deepEqual(hardwareOf(gpus), { gpu: "h200", count: 1 });
  assert.deepEqual(hardwareOf(gpus, 4), { gpu: "h200", count: 4 });
  assert.deepEqual(hardwareOf({ ...gpus, gpu: "other" }), { count: 3 });
  assert.equal(hardwareName({ gpu: "h200", count: 1 }), "1 h200");
  assert.equal(hardwareName({ count: 1 }), "1 virtual core");
  assert.equal(hardwareName({ count: 2 }), "2 virtual cores");
});

test("time and hardware decide what a cloud costs, and hardware without a row costs nothing that is shown", () => {
  const prices = { usd_per_tgrid: null, rows: [row({ gpu: "h100", gpus: 4 }), row({ gpu: "h100", gpus: 1, usd_per_hour: 1 }), row({ vcpus: 2, usd_per_hour: 0.5 })] };
  const usd = (hardware: { gpu?: string; count: number }, ms: number) => costsOf(prices, hardware, ms).map((it) => it.usd);
  assert.deepEqual(usd({ gpu: "h100", count: 1 }, HOUR), [1, 2]);
  assert.deepEqual(usd({ gpu: "h100", count: 2 }, HOUR / 2), [1, 2]);
  assert.deepEqual(usd({ count: 4 }, HOUR), [1]);
  assert.deepEqual(usd({ gpu: "h200", count: 1 }, HOUR), []);
  assert.deepEqual(costsOf({ rows: [] }, { count: 1 }, HOUR), []);
});

test("dollars have three digits", () => {
  for (const [usd, shown] of [[55.04, "$55.04"], [1_234.5, "$1234.50"], [0.012_345, "$0.0123"], [0.000_000_5, "$0.000000500"], [0, "$0"]] as const) assert.equal(dollars(usd), shown);
});

test("a day is so many days ago", () => {
  const now = Date.parse("2026-11-27T12:00:00Z");
  for (const [day, ago] of [["2026-11-27", "today"], ["2026-11-26", "1 day ago"], ["2026-11-01", "26 days ago"], ["2026-11-28", "today"]] as const) assert.equal(daysAgo(day, now), ago);
});
