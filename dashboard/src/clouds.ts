// What clouds ask for the hardware of an offer, by the dated table that the node was started with.

import type { CloudPrice, CloudPrices, Machine } from "./api.ts";

/** GPUs of a model, or virtual cores. */
export type CloudHardware = { gpu?: string; count: number };

/** What one product of a cloud would cost, in dollars. */
export type CloudCost = { row: CloudPrice; usd: number };

/** What of a machine a job with so many GPUs uses: those, one at least if there are any, and else its cores. A machine that does not say how many it has counts as one. */
export function hardwareOf(machine: Pick<Machine, "gpus" | "gpu" | "cpu_milli"> | undefined, gpus = 0): CloudHardware {
  if (machine && machine.gpus > 0 && machine.gpu !== "other") return { gpu: machine.gpu, count: Math.max(1, gpus) };
  return { count: Math.max(1, Math.ceil((machine?.cpu_milli ?? 0) / 1_000)) };
}

/** The same in words. */
export function hardwareName({ gpu, count }: CloudHardware): string {
  if (gpu) return `${count} ${gpu}`;
  return count === 1 ? "1 virtual core" : `${count} virtual cores`;
}

/** What hardware would cost for a time, the cheapest first; nothing if no row is of it. */
export function costsOf(prices: CloudPrices, hardware: CloudHardware, ms: number): CloudCost[] {
  const costs = prices.rows.flatMap((row) => {
    const of = hardware.gpu ? (row.gpu === hardware.gpu ? row.gpus : 0) : row.gpu ? 0 : row.vcpus;
    return of > 0 ? [{ row, usd: (row.usd_per_hour * hardware.count * ms) / of / 3_600_000 }] : [];
  });
  return costs.sort((a, b) => a.usd - b.usd);
}

/** Dollars with three significant digits, and no less than whole cents of large ones. */
export function dollars(usd: number): string {
  if (!(usd > 0)) return "$0";
  const places = 2 - Math.floor(Math.log10(usd));
  return `$${usd.toFixed(Math.min(12, Math.max(2, places)))}`;
}

/** How long ago a day was, in words. */
export function daysAgo(day: string, now: number): string {
  const days = Math.floor((now - Date.parse(`${day}T00:00:00Z`)) / 86_400_000);
  return days === 1 ? "1 day ago" : days > 1 ? `${days} days ago` : "today";
}
