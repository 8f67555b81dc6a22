// Pieces that several pages show.

import type { ComponentChildren } from "preact";
import type { JobState } from "./api.ts";
import { amount, short } from "./format.ts";
import type { Loaded } from "./live.ts";

/** What a page shows of something asked for: it, that it is awaited, or why it is not there. */
export function Shown<T>({ of, what, children }: { of: Loaded<T>; what: string; children: (value: T) => ComponentChildren }) {
  if (of.missing) return <p class="note">There is no such {what} here.</p>;
  return (
    <>
      {of.error && <p class="note bad" role="alert">{of.error}{of.value !== undefined ? ": what is shown may be old" : ""}</p>}
      {of.value !== undefined ? children(of.value) : !of.error && <p class="note" aria-busy="true">Loading the {what}…</p>}
    </>
  );
}

/** A titled part of a page. */
export function Section({ title, aside, children }: { title: string; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section>
      <header class="section"><h2>{title}</h2>{aside && <span class="aside">{aside}</span>}</header>
      {children}
    </section>
  );
}

/** A figure with its name. */
export function Figure({ name, value, note }: { name: string; value: ComponentChildren; note?: ComponentChildren }) {
  return <div class="figure"><dt>{name}</dt><dd>{value}</dd>{note !== undefined && <dd class="small">{note}</dd>}</div>;
}

/** A table; on narrow screens each cell carries its column's name. */
export function Table({ head, rows, empty }: { head: string[]; rows: { key: string; cells: ComponentChildren[] }[]; empty: string }) {
  if (rows.length === 0) return <p class="note">{empty}</p>;
  return (
    <table>
      <thead><tr>{head.map((name) => <th scope="col" key={name}>{name}</th>)}</tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.key}>{row.cells.map((cell, index) => <td key={head[index]} data-name={head[index]}>{cell !== "" && <div>{cell}</div>}</td>)}</tr>
        ))}
      </tbody>
    </table>
  );
}

/** Named values below each other. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return <dl class="facts">{of.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

const KINDS: Partial<Record<JobState, string>> = {
  paid: "good", accepted: "good", refunded: "bad", expired: "bad", cancelled: "quiet", disputed: "bad",
};

/** The state of a job. */
export function State({ of }: { of: JobState }) {
  return <span class={`state ${KINDS[of] ?? "busy"}`}>{of}</span>;
}

/** An amount of TGRID; exactly in its title. */
export function Tgrid({ of }: { of: string }) {
  return <span title={`${of} TGRID`}>{amount(of)}</span>;
}

/** An id or digest, as a link if it has a page; the title has all of it. */
export function Id({ of, to }: { of: string; to?: string }) {
  const text = <code title={of}>{short(of)}</code>;
  return to ? <a href={`#/${to}/${of}`}>{text}</a> : text;
}

/** Values beside each other as bars, the greatest marked; negative ones hang down. */
export function Bars({ values, label, names }: { values: number[]; label: string; names?: string[] }) {
  const top = Math.max(0, ...values);
  const low = Math.min(0, ...values);
  const range = top - low || 1;
  const best = values.indexOf(Math.max(...values));
  return (
    <ol class="values" aria-label={label}>
      {values.map((value, index) => (
        <li key={index} class={index === best ? "best" : undefined} title={`${names?.[index] ?? index}: ${value}`}>
          <span class="stand" aria-hidden="true"><i style={{ bottom: `${(100 * (Math.min(0, value) - low)) / range}%`, height: `${Math.max(2, (100 * Math.abs(value)) / range)}%` }} /></span>
          <span>{names?.[index] ?? index}</span>
          <span class="unseen">: {value}</span>
        </li>
      ))}
    </ol>
  );
}

/** A series as bars over time, the newest at the right, with what its ends are. */
export function Series({ values, label, from, to, unit }: { values: number[]; label: string; from: string; to: string; unit: string }) {
  const most = Math.max(...values) || 1;
  const width = 100 / Math.max(1, values.length);
  return (
    <figure class="series">
      <figcaption>{label}{values.some((value) => value > 0) && <span class="small"> at most {Number.isInteger(most) ? most : most.toPrecision(3)} {unit}</span>}</figcaption>
      <svg role="img" aria-label={`${label}: ${values.map((value) => Number(value.toPrecision(3))).join(", ")} ${unit}`} viewBox="0 0 100 32" preserveAspectRatio="none">
        <line x1="0" x2="100" y1="31.5" y2="31.5" />
        {values.map((value, index) => <rect key={index} x={index * width + width * 0.12} width={width * 0.76} y={31 - (30 * value) / most} height={(30 * value) / most} />)}
      </svg>
      <div class="ends small"><span>{from}</span><span>{to}</span></div>
    </figure>
  );
}

/** How much of something is used. */
export function Meter({ value, max, label }: { value: number; max: number; label: string }) {
  return <span class="meter" title={label}><meter min={0} max={Math.max(1, max)} value={value} aria-label={label} /> {value} of {max}</span>;
}

/** A button that copies a text. */
export function Copy({ text, what }: { text: string; what: string }) {
  return <button type="button" class="copy" aria-label={`copy ${what}`} title={`copy ${what}`} onClick={(event) => {
    const button = event.currentTarget;
    void navigator.clipboard?.writeText(text).then(() => {
      button.dataset.done = "1";
      setTimeout(() => delete button.dataset.done, 1_200);
    });
  }}>copy</button>;
}
