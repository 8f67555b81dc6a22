// The verifier in its worker, loaded when it is first asked for.

import type { Asked, Found } from "./verify.worker.ts";

/** What the verifier reads, by its number. */
export const INPUT = { model: 0, proof: 1, expected: 2, blocks: 3, domain: 4, seats: 5 } as const;
/** What it does, by its number. */
export const STEP = { readProof: 0, readModel: 1, registration: 2, verify: 3, blocks: 4 } as const;

/** Why a step refused. */
export type Why = { check: string; code?: number | null; reason: string };
/** What a proof says that it is about, before anything is verified. */
export type About = { model: string; job: string; provider: string };
/** What was verified. */
export type Verdict = About & {
  name: string;
  program: string;
  inputs: number;
  input: string;
  output: string;
  input_mode: string;
  output_mode: string;
  zk: boolean;
  private_weights: boolean;
  model_bytes: number;
  proof_bytes: number;
  security: { bits: number; bits_before: number; terms: { label: string; bits: number }[] } | null;
  answers: { name: string | null; label: string | null; values: (number | null)[]; count: number }[];
  sequence: { prompt: number[]; prompt_count: number; written: number[]; written_count: number; limit: number; keep: number } | null;
};
/** A transaction of a block. */
export type Transaction = { id: string; kind: string; sender: string; nonce: number; about: string; of: string };
/** A block, read from its bytes. */
export type Block = {
  height: number;
  id: string;
  parent: string;
  timestamp_ms: number;
  time_ms: number;
  version: number;
  epoch: number;
  base_fee: string;
  proposer: string;
  state_root: string;
  body: string;
  bytes: number;
  linked: boolean;
  signed: boolean;
  transactions: Transaction[];
  verdicts: number;
};
/** What was found of the certificate of a page of blocks: that it holds; that it does not; that it is of an older set of
 * validators, or of seats that are not known, and was not checked. */
export type Finality = { state: "signed"; quorum: number; seats: number } | { state: "wrong"; reason: string } | { state: "older" } | { state: "unchecked" };

/** That the verifier refused, or could not go on. */
export class Refused extends Error {
  constructor(
    readonly why: Why,
    readonly broken = false,
  ) {
    super(why.reason);
  }
}

// A worker that has loaded the module and does nothing at the moment.
let idle: Worker | undefined;

/** Loads the module ahead, so that verifying needs no network. */
export async function warm(): Promise<void> {
  const verifier = new Verifier();
  await verifier.load();
  verifier.end();
}

/** One instance of the module: it keeps what it read until it ends. */
export class Verifier {
  private worker: Worker;
  private fresh = true;
  private works = false;
  private turn: Promise<unknown> = Promise.resolve();

  constructor() {
    this.worker = idle ?? new Worker("/dashboard/verify.js");
    idle = undefined;
  }

  /** Writes inputs and takes a step; gives what it found and how long it took. Fails with Refused. */
  async step<T>(step: number, inputs: [number, Uint8Array][] = []): Promise<{ answer: T; ms: number }> {
    const mine = this.turn.then(() => this.ask({ fresh: this.fresh, inputs, step }));
    this.turn = mine.catch(() => undefined);
    const found = await mine;
    if ("broken" in found) {
      this.worker.terminate();
      throw new Refused({ check: "module", reason: found.broken }, true);
    }
    if (!found.right) throw new Refused(found.answer as Why);
    return { answer: found.answer as T, ms: found.ms };
  }

  /** Waits until the module is loaded. */
  async load(): Promise<void> {
    const found = await this.ask({ fresh: false, inputs: [] });
    if ("broken" in found) throw new Refused({ check: "module", reason: found.broken }, true);
  }

  /** Ends it, at once if it works on something. */
  end() {
    if (this.works || idle) this.worker.terminate();
    else idle = this.worker;
  }

  private ask(asked: Asked): Promise<Found> {
    this.works = true;
    this.fresh = false;
    return new Promise((resolve) => {
      const done = (found: Found) => {
        this.works = "broken" in found;
        resolve(found);
      };
      this.worker.onmessage = (event: MessageEvent<Found>) => done(event.data);
      this.worker.onerror = (event) => done({ broken: event.message || "the verifier could not be loaded" });
      this.worker.postMessage(asked);
    });
  }
}

/** The bytes of a text. */
export function encoded(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** The bytes that are at a path; `onProgress` hears how many came so far. */
export async function fetched(path: string, most: number, onProgress: (bytes: number) => void = () => undefined): Promise<Uint8Array> {
  const response = await fetch(path);
  if (!response.ok || !response.body) throw new Refused({ check: "download", reason: response.status === 404 ? "this node does not keep it any more" : `the node answered ${response.status}` }, true);
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) throw new Refused({ check: "download", reason: `more than ${most} bytes came` }, true);
    parts.push(value);
    onProgress(length);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
