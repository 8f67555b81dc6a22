// The worker in which the verifier runs: one instance of the module, asked for steps. A trap is caught here and said.

type Exports = {
  memory: WebAssembly.Memory;
  room(input: number, bytes: number): number;
  step(number: number): number;
  answer(): number;
  answer_bytes(): number;
};

/** What is asked: whether to begin with a new instance, inputs to write, by number, and a step to take; without one, to be loaded. */
export type Asked = { fresh: boolean; inputs: [number, Uint8Array][]; step?: number };
/** What comes back: what the step found, or that the module cannot go on. */
export type Found = { right: boolean; answer: unknown; ms: number } | { broken: string };

let module: Promise<WebAssembly.Module> | undefined;
let instance: Exports | undefined;

async function started(fresh: boolean): Promise<Exports> {
  module ??= WebAssembly.compileStreaming(fetch("/dashboard/verify.wasm"));
  if (fresh) instance = undefined;
  return (instance ??= (await WebAssembly.instantiate(await module, {})).exports as unknown as Exports);
}

function take(it: Exports, { inputs, step }: Asked): Found {
  if (step === undefined) return { right: true, answer: {}, ms: 0 };
  for (const [input, bytes] of inputs) {
    const at = it.room(input, bytes.length);
    if (at === 0) return { right: false, answer: { check: "size", reason: `a file of ${bytes.length} bytes is more than the verifier reads` }, ms: 0 };
    new Uint8Array(it.memory.buffer, at, bytes.length).set(bytes);
  }
  const begin = performance.now();
  const right = it.step(step) === 1;
  const ms = performance.now() - begin;
  const text = new TextDecoder().decode(new Uint8Array(it.memory.buffer, it.answer(), it.answer_bytes()));
  return { right, answer: JSON.parse(text), ms };
}

onmessage = async (event: MessageEvent<Asked>) => {
  try {
    postMessage(take(await started(event.data.fresh), event.data));
  } catch (error) {
    postMessage({ broken: error instanceof Error ? error.message : String(error) });
  }
};
