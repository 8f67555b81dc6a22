// Numbers, amounts and times as people read them.

/** An amount of TGRID with at most six significant digits; the exact one is for a title. */
export function amount(text: string): string {
  const [whole = "0", part = ""] = text.split(".");
  if (whole !== "0") {
    const rest = part.slice(0, Math.max(0, 6 - whole.length)).replace(/0+$/, "");
    return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest && `.${rest}`);
  }
  const zeros = part.length - part.replace(/^0+/, "").length;
  const shown = part.slice(0, zeros + 3).replace(/0+$/, "");
  return shown ? `0.${shown}` : "0";
}

/** An id or digest, shortened. */
export function short(id: string): string {
  return id.length > 14 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
}

/** A text whose ids are shortened. */
export function shortened(text: string): string {
  return text.replace(/0x[0-9a-f]{20,}/g, short);
}

/** A span of milliseconds. */
export function span(ms: number): string {
  if (ms < 0) return "0 ms";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
  if (ms < 172_800_000) return `${(ms / 3_600_000).toFixed(1)} h`;
  return `${Math.round(ms / 86_400_000)} days`;
}

/** A count with thousands separated. */
export function count(number: number): string {
  return number.toLocaleString("en-US");
}

/** Bytes with a binary unit. */
export function bytes(number: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1_024 && unit < units.length - 1) {
    number /= 1_024;
    unit += 1;
  }
  return `${unit === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`;
}

/** Multiply-accumulates with a decimal unit. */
export function work(macs: number): string {
  const units = ["", "k", "M", "G", "T", "P"];
  let unit = 0;
  while (macs >= 1_000 && unit < units.length - 1) {
    macs /= 1_000;
    unit += 1;
  }
  return `${unit === 0 || macs >= 100 ? Math.round(macs) : macs.toFixed(1)} ${units[unit]}MAC`;
}

/** The share of results that were accepted, of a provider that has some. */
export function success(it: { accepted: number; late: number; rejected: number; abandoned: number }): string {
  const all = it.accepted + it.late + it.rejected + it.abandoned;
  return all === 0 ? "no history" : `${((100 * it.accepted) / all).toFixed(all < 1_000 ? 0 : 1)} % of ${count(all)}`;
}

/** What an endpoint's lease counts, as far as money follows from it. */
export type Meter = { minute: string; vouchers: string; paid: string; started_ms?: number | null };

/** When an endpoint's money is spent if nothing more is asked, no later than its deadline; nothing before it is served. */
export function runsOutMs(job: { escrow: string; deadline_ms: number }, meter: Meter): number | undefined {
  if (meter.started_ms == null) return undefined;
  // What time may cost in all: the money of this lease less what answers cost.
  const forTime = Number(job.escrow) + Number(meter.paid) - Number(meter.vouchers);
  const minute = Number(meter.minute);
  if (minute === 0) return job.deadline_ms;
  return Math.min(job.deadline_ms, meter.started_ms + Math.max(0, forTime / minute) * 60_000);
}

/** What of an endpoint's money is left at a time, the time that was not claimed yet taken off. */
export function leftAt(escrow: string, meter: Meter, now: number): string {
  const minutes = meter.started_ms == null ? 0 : Math.max(0, now - meter.started_ms) / 60_000;
  const owed = minutes * Number(meter.minute) + Number(meter.vouchers) - Number(meter.paid);
  return amount(Math.max(0, Number(escrow) - Math.max(0, owed)).toFixed(9));
}

/** How long until a time, as one reads it beside money. */
export function minutesLeft(at: number, now: number): string {
  return at <= now ? "now" : `in ${span(at - now)}`;
}

/** How the disputes about a job's results ended, or that one goes on. */
export function disputeOutcome(job: {
  state: string;
  leases: { end?: string | null; end_text?: string | null; check?: { dispute?: unknown } | null; rejection?: { code: number; check: string } | null }[];
}): string {
  if (job.leases.some((lease) => lease.check?.dispute)) return "It goes on.";
  const rejected = job.leases.find((lease) => lease.rejection);
  if (rejected?.rejection) {
    const { check, code } = rejected.rejection;
    return `The provider lost: ${check} (code ${code}). Its collateral is burned, and the job ${job.state === "paid" ? "was done by another" : `is ${job.state}`}.`;
  }
  if (job.state === "disputed") return "It goes on: every validator looks at what is disputed.";
  if (job.state === "paid" || job.state === "accepted") return "No accusation held: the result was accepted.";
  return `No accusation held so far; the job is ${job.state}.`;
}

/** How many of some times fall in each of the last minutes before `now`, the newest minute last. */
export function perMinute(times: number[], now: number, minutes: number): number[] {
  const counts = Array.from({ length: minutes }, () => 0);
  for (const time of times) {
    const back = Math.floor((now - time) / 60_000);
    const at = minutes - 1 - Math.max(0, back);
    if (at >= 0) counts[at] = (counts[at] ?? 0) + 1;
  }
  return counts;
}

/** The value in the middle, the lower one of two. */
export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
}

/** A short text that is not broken into lines. */
export function tight(text: string): string {
  return text.replaceAll(" ", "\u00a0");
}
