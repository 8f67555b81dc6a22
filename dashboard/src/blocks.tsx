// The block explorer: blocks come in their canonical bytes, are read by the verifier's module, and their ids computed here. So
// is whether the seats that this node names signed them.

import { useEffect, useState } from "preact/hooks";
import { get, Refusal, type Seats, type Status } from "./api.ts";
import { bytes, count, span } from "./format.ts";
import { useLive, useNow } from "./live.ts";
import { Copy, Facts, Id, Section, Shown, Table, Tgrid } from "./parts.tsx";
import { encoded, fetched, INPUT, Refused, STEP, Verifier, type Block, type Finality, type Transaction } from "./verifier.ts";

const PAGE = 64;
const PAGE_MAX = 5 * 2 ** 20;
/** Most pages that are asked for to fill one here: the API's end with an epoch. */
const PAGES_MAX = 8;
type BlocksPage = { tip: number; blocks: Block[]; finality: Finality };
/** A block, and what was found of the certificate of its page. */
type Found = Block & { finality: Finality };

let reader: Verifier | undefined;
let known: { salt: string; genesis: string } | undefined;

/** Reads a page from its bytes. */
async function read(page: Uint8Array, seats: Uint8Array, { chain_id, rollup, salt }: Status["domain"]): Promise<BlocksPage> {
  const domain = encoded(`chain ${chain_id}\nrollup ${rollup}\nsalt ${salt}`);
  reader ??= new Verifier();
  try {
    const { answer } = await reader.step<BlocksPage>(STEP.blocks, [[INPUT.blocks, page], [INPUT.domain, domain], [INPUT.seats, seats]]);
    return answer;
  } catch (error) {
    // A module that could not go on is not asked again.
    if (error instanceof Refused && error.broken) reader = undefined;
    throw error;
  }
}

/** The id of block 0, of which every vote is: the parent of block 1. Nothing if this node does not keep that block. */
async function genesis(domain: Status["domain"]): Promise<string | undefined> {
  if (known?.salt === domain.salt) return known.genesis;
  try {
    const page = await fetched("/v1/chain/blocks?from=1", PAGE_MAX);
    const first = (await read(page, new Uint8Array(0), domain)).blocks[0];
    if (first?.height !== 1) return undefined;
    known = { salt: domain.salt, genesis: first.parent };
    return first.parent;
  } catch (error) {
    if (error instanceof Refused && error.why.check === "download") return undefined;
    throw error;
  }
}

/** The seats that this node names, as the verifier reads them; none without the id of block 0. */
async function seats(domain: Status["domain"]): Promise<Uint8Array> {
  const id = await genesis(domain);
  if (id === undefined) return new Uint8Array(0);
  const { since, validators } = await get<Seats>("/v1/seats");
  return encoded([`genesis ${id}`, `since ${since}`, ...validators.map(({ key }) => `seat ${key}`)].join("\n"));
}

/** Final blocks from one height to another. */
async function blocks(from: number, to: number, { domain }: Status): Promise<Found[]> {
  const all: Found[] = [];
  for (let pages = 0, next = from; pages < PAGES_MAX && next <= to; pages++) {
    const page = await fetched(`/v1/chain/blocks?from=${next}`, PAGE_MAX);
    // Asked for after the page: a set that came meanwhile says since when it votes.
    const { blocks, finality } = await read(page, await seats(domain), domain);
    if (blocks.length === 0) break;
    for (const block of blocks) {
      const before = all.at(-1);
      all.push({ ...block, linked: block.linked && (!before || block.parent === before.id), finality });
    }
    next += blocks.length;
  }
  return all.filter((block) => block.height <= to);
}

type Read = { found?: Found[]; problem?: string };

function useBlocks(from: number | undefined, to: number | undefined, status: Status | undefined): Read {
  const [read, setRead] = useState<Read>({});
  useEffect(() => {
    if (from === undefined || to === undefined || !status) return;
    let isOver = false;
    blocks(from, to, status).then(
      (found) => !isOver && setRead({ found }),
      (error: unknown) => !isOver && setRead({ problem: error instanceof Error ? error.message : String(error) }),
    );
    return () => {
      isOver = true;
    };
  }, [from, to, status?.domain.salt]);
  return read;
}

/** Finds what an id or a height names, and opens its page. */
function Search({ tip }: { tip: number | undefined }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const find = async (event: Event) => {
    event.preventDefault();
    setProblem("");
    const asked = text.trim().replaceAll(",", "");
    if (/^[0-9]+$/.test(asked)) {
      if (tip !== undefined && (Number(asked) > tip || Number(asked) < 1)) return setProblem(`Blocks 1 to ${count(tip)} are final.`);
      location.hash = `#/block/${Number(asked)}`;
      return;
    }
    if (!/^0x[0-9a-f]+$/i.test(asked)) return setProblem("That is no height, and no id: ids begin with 0x.");
    const id = asked.toLowerCase();
    const places = id.length === 42 ? [["provider", `/v1/providers/${id}`]] : [["tx", `/v1/transactions/${id}`], ["job", `/v1/jobs/${id}`], ["model", `/v1/models/${id}`]];
    for (const [page, path] of places) {
      try {
        await get(path as string);
        location.hash = `#/${page}/${id}`;
        return;
      } catch (error) {
        if (!(error instanceof Refusal)) return setProblem("The node does not answer.");
      }
    }
    setProblem("This node knows no job, model, provider or recent transaction of that id.");
  };
  return (
    <form class="search" onSubmit={find} role="search">
      <label>height, or the id of a transaction, job, model or provider <span class="inline"><input value={text} onInput={(event) => setText(event.currentTarget.value)} placeholder="1234 or 0x…" spellcheck={false} required /><button type="submit">Find</button></span></label>
      <p role="status" class="note bad">{problem}</p>
    </form>
  );
}

export function Blocks() {
  const status = useLive<Status>("/v1/status", 2_000);
  const [until, setUntil] = useState<number>();
  const height = status.value?.height;
  const last = until ?? height;
  const from = last === undefined ? undefined : Math.max(1, last - PAGE + 1);
  const { found, problem } = useBlocks(from, last, status.value);
  const [full, setFull] = useState(false);
  const now = useNow();
  const shown = [...(found ?? [])].reverse().filter((block) => !full || block.transactions.length + block.verdicts > 0);
  return (
    <Section title="Blocks" aside={height !== undefined && `${count(height)} are final`}>
      <Search tip={height} />
      <div class="fields">
        <label class="check"><input type="checkbox" checked={full} onChange={(event) => setFull(event.currentTarget.checked)} /> only blocks that hold something</label>
      </div>
      {problem && <p class="note bad" role="alert">{problem}</p>}
      {!found && !problem && <p class="note" aria-busy="true">Loading the blocks…</p>}
      {found && (
        <Table
          head={["height", "block", "age", "transactions", "verdicts", "proposer", "size", "certificate"]}
          empty="None of these 64 blocks holds anything."
          rows={shown.map((block) => ({
            key: block.id,
            cells: [
              <a href={`#/block/${block.height}`}>{count(block.height)}</a>,
              <Id of={block.id} />,
              span(now - block.timestamp_ms),
              <Kinds of={block.transactions} />,
              block.verdicts || <span class="small">none</span>,
              <Id of={block.proposer} />,
              bytes(block.bytes),
              <Signed of={block} short />,
            ],
          }))}
        />
      )}
      <nav class="pages" aria-label="newer and older">
        {until !== undefined && <button class="plain" onClick={() => setUntil(undefined)}>newest</button>}
        {from !== undefined && from > 1 && <button class="plain" onClick={() => setUntil(from - 1)}>older</button>}
      </nav>
    </Section>
  );
}

/** Which transactions a block has. */
function Kinds({ of }: { of: Transaction[] }) {
  if (of.length === 0) return <span class="small">none</span>;
  const kinds = new Map<string, number>();
  for (const { kind } of of) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  return <>{[...kinds].map(([kind, number]) => (number > 1 ? `${number} × ${words(kind)}` : words(kind))).join(", ")}</>;
}

/** The name of a kind in words. */
function words(kind: string): string {
  return kind.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

export function BlockDetail({ id }: { id: string }) {
  const height = Number(id);
  const status = useLive<Status>("/v1/status", 2_000);
  const isFinal = status.value !== undefined && height <= status.value.height;
  // With the block before it, so that its parent can be compared.
  const { found, problem } = useBlocks(isFinal ? Math.max(1, height - 1) : undefined, isFinal ? height : undefined, status.value);
  if (!Number.isSafeInteger(height) || height < 1) return <p class="note">There is no such block. <a href="#/blocks">Blocks</a></p>;
  const block = found?.find((block) => block.height === height);
  return (
    <>
      <h1>Block {count(height)}</h1>
      <nav class="pages" aria-label="blocks beside this one">
        {height > 1 && <a href={`#/block/${height - 1}`}>← {count(height - 1)}</a>}
        <a href={`#/block/${height + 1}`}>{count(height + 1)} →</a>
        <a href="#/blocks">all blocks</a>
      </nav>
      <Shown of={status} what="chain">{(it) => (
        <>
          {height > it.height && <p class="note">It is not final yet: block {count(it.height)} is the newest.</p>}
          {problem && <p class="note bad" role="alert">{problem}</p>}
          {isFinal && !found && !problem && <p class="note" aria-busy="true">Loading the block…</p>}
          {block && <BlockFacts of={block} />}
        </>
      )}</Shown>
    </>
  );
}

/** Whose signatures show that a block is final, as far as they were checked here. */
function Signed({ of: { signed, finality }, short = false }: { of: Found; short?: boolean }) {
  switch (finality.state) {
    case "signed":
      if (!signed) return <span class="state bad">{short ? "does not hold" : "the block that was signed does not lead to it"}</span>;
      return <span class="state good">{short ? "holds" : `signed by ${count(finality.quorum)} of the ${count(finality.seats)} seats that this node names`}</span>;
    case "wrong":
      return <span class="state bad">{short ? "does not hold" : `its certificate does not hold: ${finality.reason}`}</span>;
    case "older":
      return <span class="state quiet">{short ? "of an older set" : "its certificate is of an older set of validators, and was not checked"}</span>;
    case "unchecked":
      return <span class="state quiet">{short ? "not checked" : "its certificate was not checked: this node does not keep block 1, which names the network"}</span>;
  }
}

function BlockFacts({ of }: { of: Found }) {
  return (
    <>
      <Section title="Header">
        <Facts of={[
          ["id", <><code>{of.id}</code> <Copy text={of.id} what="the block's id" /></>],
          ["time", new Date(of.timestamp_ms).toLocaleString()],
          ["parent", <a href={`#/block/${of.height - 1}`}><code>{of.parent}</code></a>],
          ["proposer", <code>{of.proposer}</code>],
          ["state root", <code>{of.state_root}</code>],
          ["body", <code>{of.body}</code>],
          ["gas price burned", <><Tgrid of={of.base_fee} /> TGRID</>],
          ["protocol, epoch", `${of.version}, ${of.epoch}`],
          ["size", bytes(of.bytes)],
          ["computed here", of.linked ? <span class="state good">id, body and parent fit its bytes</span> : <span class="state bad">its bytes do not fit its body or parent</span>],
          ["certificate", <Signed of={of} />],
        ]} />
      </Section>
      <Section title="Transactions" aside={count(of.transactions.length)}>
        <Transactions of={of.transactions} />
        <p class="small">{of.verdicts === 0 ? "No verdict of validators." : `${count(of.verdicts)} verdicts of validators.`}</p>
      </Section>
    </>
  );
}

function Transactions({ of }: { of: Transaction[] }) {
  return (
    <Table
      head={["transaction", "what", "about", "sender", "nonce"]}
      empty="It has none."
      rows={of.map((it) => ({
        key: it.id,
        cells: [
          <Id of={it.id} to="tx" />,
          words(it.kind),
          it.about === "job" || it.about === "model" ? <>{it.about} <Id of={it.of} to={it.about} /></> : it.about === "lease" ? <>lease <Id of={it.of} /></> : it.of,
          <Id of={it.sender} to="provider" />,
          count(it.nonce),
        ],
      }))}
    />
  );
}

type TransactionStatus = { transaction: string; state: string; height?: number | null; reason?: string | null };

export function TransactionDetail({ id }: { id: string }) {
  const status = useLive<TransactionStatus>(`/v1/transactions/${id}`);
  return (
    <>
      <h1>Transaction <code>{id}</code></h1>
      <Shown of={status} what="transaction">{(it) => (
        <Facts of={[
          ["state", it.state],
          ["block", it.height == null ? "none yet" : <a href={`#/block/${it.height}`}>{count(it.height)}</a>],
          ...(it.reason ? ([["dropped", it.reason]] as [string, string][]) : []),
        ]} />
      )}</Shown>
      <p class="small">A node remembers the transactions that it took lately; older ones are in their blocks.</p>
    </>
  );
}
