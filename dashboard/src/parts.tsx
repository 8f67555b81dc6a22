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
          <tr key={row.key}>{row.cells.map((cell, index) => <td key={head[index]} data-name={head[index]}>{cell}</td>)}</tr>
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
