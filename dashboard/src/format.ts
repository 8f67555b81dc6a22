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
