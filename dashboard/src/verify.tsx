// Verifying in the browser: the proof of a job, or files that are dropped on the page.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, Refusal, type JobReceipt, type Model } from "./api.ts";
import { bytes, count, span } from "./format.ts";
import { Bars, Facts, Id, Section } from "./parts.tsx";
import { encoded, fetched, INPUT, Refused, STEP, Verifier, warm, type About, type Verdict, type Why } from "./verifier.ts";

const MODEL_MAX = 16 * 2 ** 20;
const PROOF_MAX = 64 * 2 ** 20;

type Step = { name: string; note?: string; ms?: number; state: "waits" | "runs" | "done" | "failed" };
type End = { verdict: Verdict } | { why: Why; broken: boolean };

const NAMES = ["load the proof", "read what it is about", "load the model's public part", "compute the model's id", "verify that its weights are in range", "verify the proof"];

/** Where files come from, and what the proof has to be about. */
type Task = {
  proof: (onProgress: (n: number) => void) => Promise<Uint8Array>;
  model: (about: About, onProgress: (n: number) => void) => Promise<Uint8Array>;
  /** Lines of a name and a digest. */
  expected: string;
  /** The model of the order; any if absent. */
  of?: string;
};

/** Runs the steps of a task; `onProgress` hears of each change. */
async function verify(verifier: Verifier, task: Task, onProgress: (steps: Step[]) => void): Promise<Verdict> {
  const steps: Step[] = NAMES.map((name) => ({ name, state: "waits" }));
  const change = (at: number, step: Partial<Step>) => {
    steps[at] = { ...(steps[at] as Step), ...step };
    onProgress([...steps]);
  };
  const step = async <T,>(at: number, run: () => Promise<{ value: T; ms?: number; note?: string }>): Promise<T> => {
    change(at, { state: "runs" });
    try {
      const { value, ...rest } = await run();
      change(at, { state: "done", ...rest });
      return value;
    } catch (error) {
      change(at, { state: "failed" });
      throw error;
    }
  };
  const load = (at: number, from: (onProgress: (n: number) => void) => Promise<Uint8Array>) =>
    step(at, async () => {
      const value = await from((n) => change(at, { note: bytes(n) }));
      return { value, note: bytes(value.length) };
    });
  const asked = async <T,>(number: number, inputs: [number, Uint8Array][]) => {
    const { answer, ms } = await verifier.step<T>(number, inputs);
    return { value: answer, ms };
  };
  const proof = await load(0, task.proof);
  const about = await step(1, () => asked<About>(STEP.readProof, [[INPUT.proof, proof], [INPUT.expected, encoded(task.expected)]]));
  if (task.of && about.model !== task.of) throw new Refused({ check: "model", reason: `the order names model ${task.of}, and the proof is about ${about.model}` });
  const model = await load(2, (onProgress) => task.model(about, onProgress));
  await step(3, () => asked(STEP.readModel, [[INPUT.model, model]]));
  await step(4, () => asked(STEP.registration, []));
  return step(5, () => asked<Verdict>(STEP.verify, []));
}

/** The public part of a model, as the node has it; the verifier computes its id. */
async function publicPart(id: string, onProgress: (n: number) => void): Promise<Uint8Array> {
  try {
    const model = await get<Model>(`/v1/models/${encodeURIComponent(id)}`);
    return await fetched(`/v1/blobs/${model.public_blob}`, MODEL_MAX, onProgress);
  } catch (error) {
    if (error instanceof Refusal) throw new Refused({ check: "download", reason: `${error.message}: choose the model's .tgv file beside the proof` }, true);
    throw error;
  }
}

function useTask() {
  const [steps, setSteps] = useState<Step[]>();
  const [end, setEnd] = useState<End>();
  const current = useRef<Verifier>();
  const stop = () => {
    current.current?.end();
    current.current = undefined;
  };
  useEffect(() => stop, []);
  const run = async (task: Task) => {
    stop();
    const verifier = new Verifier();
    current.current = verifier;
    setEnd(undefined);
    setSteps(NAMES.map((name) => ({ name, state: "waits" })));
    const isCurrent = () => current.current === verifier;
    try {
      const verdict = await verify(verifier, task, (steps) => isCurrent() && setSteps(steps));
      if (isCurrent()) setEnd({ verdict });
    } catch (error) {
      const why = error instanceof Refused ? error.why : { check: "download", reason: error instanceof Error ? error.message : String(error) };
      if (isCurrent()) setEnd({ why, broken: !(error instanceof Refused) || error.broken });
    }
    if (isCurrent()) stop();
  };
  const halt = () => {
    stop();
    setEnd({ why: { check: "stopped", reason: "it was stopped" }, broken: true });
  };
  return { steps, end, run, halt };
}

/** Offers to verify the proof of a paid job. */
export function VerifyJob({ of }: { of: JobReceipt }) {
  const { steps, end, run, halt } = useTask();
  const evidence = of.evidence;
  if (of.job.mode !== "proof" || !evidence) {
    return <p class="note">This job has no proof to verify here: it was ordered with mode <b>{of.job.mode}</b>.</p>;
  }
  const lines = [["job", of.job.id], ["provider", of.lease.provider], ["input", of.receipt.input], ["output", of.receipt.output]];
  const task: Task = {
    proof: (onProgress) => fetched(`/v1/blobs/${evidence}`, PROOF_MAX, onProgress),
    model: (about, onProgress) => publicPart(about.model, onProgress),
    expected: lines.map((line) => line.join(" ")).join("\n"),
    of: of.job.model,
  };
  return (
    <>
      <p class="actions">
        <button onClick={() => void run(task)} disabled={steps && !end}>{end ? "Verify again" : steps ? "Verifying…" : "Verify in the browser"}</button>
        {steps && !end && <button class="plain" onClick={halt}>Stop</button>}
        <a href={`/v1/blobs/${evidence}`} download={`${of.job.id.slice(0, 14)}.proof`}>Save the proof</a>
      </p>
      <Progress steps={steps} />
      {end && <Outcome end={end} against="the job, provider, input and output that this node names" />}
    </>
  );
}

/** Verifies files that somebody chose. Nothing of them leaves the browser. */
export function VerifyFiles() {
  const [files, setFiles] = useState<File[]>([]);
  const [over, setOver] = useState(false);
  const [loaded, setLoaded] = useState<string>();
  const { steps, end, run, halt } = useTask();
  useEffect(() => {
    warm().then(() => setLoaded("The verifier is loaded: from here on this page needs no network, if you have both files."), (error: unknown) => setLoaded(`The verifier could not be loaded: ${error instanceof Error ? error.message : String(error)}`));
  }, []);
  const proof = files.find((file) => !file.name.endsWith(".tgv"));
  const model = files.find((file) => file.name.endsWith(".tgv"));
  const take = (list: FileList | null | undefined) => {
    const chosen = [...(list ?? [])];
    if (chosen.length === 0) return;
    const kept = files.filter((old) => !chosen.some((file) => file.name.endsWith(".tgv") === old.name.endsWith(".tgv")));
    const all = [...kept, ...chosen].slice(-2);
    setFiles(all);
    start(all);
  };
  const start = (all: File[]) => {
    const proof = all.find((file) => !file.name.endsWith(".tgv"));
    const model = all.find((file) => file.name.endsWith(".tgv"));
    if (!proof) return;
    const read = async (file: File, most: number) => {
      if (file.size > most) throw new Refused({ check: "size", reason: `${file.name} has ${bytes(file.size)}, and ${bytes(most)} are the most` });
      return new Uint8Array(await file.arrayBuffer());
    };
    void run({
      proof: () => read(proof, PROOF_MAX),
      model: (about, onProgress) => (model ? read(model, MODEL_MAX) : publicPart(about.model, onProgress)),
      expected: "",
    });
  };
  return (
    <Section title="Verify a file" aside="nothing is uploaded">
      <p>Choose a proof (<code>.proof</code>) and, if you have it, the public part of its model (<code>.tgv</code>). Without that file the page asks this node for it, and checks that it is the model that the proof names.</p>
      <label class={over ? "drop over" : "drop"} onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={(event) => { event.preventDefault(); setOver(false); take(event.dataTransfer?.files); }}>
        <input type="file" multiple aria-label="a proof, and the public part of its model" onChange={(event) => take(event.currentTarget.files)} />
        <span>{proof ? <><b>{proof.name}</b> {bytes(proof.size)}{model ? <> and <b>{model.name}</b> {bytes(model.size)}</> : null}</> : model ? <><b>{model.name}</b>: now its proof</> : "Drop a proof here, or choose it"}</span>
      </label>
      <p class="small" role="status">{loaded ?? "Loading the verifier…"}</p>
      {steps && !end && <p class="actions"><button class="plain" onClick={halt}>Stop</button></p>}
      <Progress steps={steps} />
      {end && <Outcome end={end} against="nothing else: it was checked as a statement of its own" />}
    </Section>
  );
}

function Progress({ steps }: { steps: Step[] | undefined }) {
  if (!steps) return null;
  const done = steps.filter((step) => step.state === "done").length;
  return (
    <>
      <progress aria-label="verification" max={steps.length} value={done} />
      <ol class="steps">{steps.map((step) => (
        <li key={step.name} class={step.state}><span>{step.name}</span> <span class="small">{step.state === "failed" ? "failed" : step.state === "runs" ? (step.note ?? "…") : [step.note, step.ms === undefined ? undefined : span(step.ms)].filter(Boolean).join(", ")}</span></li>
      ))}</ol>
    </>
  );
}

function Outcome({ end, against }: { end: End; against: string }) {
  if ("why" in end) {
    return (
      <div class={end.broken ? "verdict unsure" : "verdict wrong"} role="alert">
        <h3>{end.broken ? "It could not be verified" : "The proof does not hold"}</h3>
        <p>{end.why.reason}{end.why.code != null && <> <span class="small">({end.why.check}, code {end.why.code})</span></>}</p>
        {end.broken && <p class="small">This says nothing about the proof.</p>}
      </div>
    );
  }
  const it = end.verdict;
  const answer = it.answers[0];
  return (
    <div class="verdict right" role="status">
      <h3>The proof holds</h3>
      <p><b>{it.name}</b> {it.sequence ? <>wrote <b>{count(it.sequence.written_count)} tokens</b> after a prompt of {count(it.sequence.prompt_count)}.</> : <>gives {it.output_mode === "public" ? "this output" : `an output that is ${it.output_mode}`} on {it.input_mode === "public" ? "this input" : `an input that is ${it.input_mode}`}{answer?.label ? <>: <b>{answer.label}</b></> : answer && answer.count > 1 && answer.count <= 1_024 && <>; the greatest of its {count(answer.count)} values is at place <b>{answer.values.indexOf(Math.max(...answer.values.map((value) => value ?? -Infinity)))}</b></>}.</>}</p>
      {answer && !it.sequence && answer.count > 1 && answer.count <= 20 && <Bars values={answer.values.map((value) => value ?? 0)} label={`the ${answer.count} values of the output`} />}
      <Facts of={[
        ["model", <><Id of={it.model} to="model" /> {bytes(it.model_bytes)}</>],
        ["job, provider", <><Id of={it.job} to="job" /> <Id of={it.provider} to="provider" /></>],
        ["input, output", <><Id of={it.input} /> <Id of={it.output} /></>],
        ["proof", <>{bytes(it.proof_bytes)}{it.zk && ", in zero knowledge"}{it.private_weights && ", of hidden weights"}</>],
        ["soundness", it.security ? <>{it.security.bits.toFixed(1)} bits <span class="small">({it.security.bits_before.toFixed(1)} by the theorem before, see docs/SECURITY.md)</span></> : "no bound is known"],
        ["compared with", against],
      ]} />
      {it.security && (
        <details>
          <summary>Every error term</summary>
          <Facts of={it.security.terms.map((term) => [`${term.bits.toFixed(1)} bits`, term.label])} />
        </details>
      )}
      <details open>
        <summary>What this does not say</summary>
        <ul>
          <li>Page and verifier came from the node that they check. One that lies can serve a page that always says yes: <code>tensorgrid verify FILE --model MODEL.tgv</code> on your own machine does not ask it.</li>
          <li>That the input is the one you meant, or that the job was ordered and paid so: these are the node's words here. <code>tensorgrid job show --genesis FILE</code> checks them against the chain.</li>
          <li>That the model is any good, that its committed weights are those of a certain file, or who saw the input.</li>
          <li>Assumed: BLAKE3 as a random oracle, list decoding up to the Johnson bound.</li>
        </ul>
      </details>
    </div>
  );
}
