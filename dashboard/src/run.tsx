// Ordering from the page, on networks labelled development, whose gateway orders for the development account; and talking to a
// language model through the OpenAI API, with a key.

import { useRef, useState } from "preact/hooks";
import { post, Refusal, type Inference, type Mode, type ModelPage, type Status } from "./api.ts";
import { bytes, count, span } from "./format.ts";
import { useLive } from "./live.ts";
import { Id, Section, Shown, Table } from "./parts.tsx";

function said(error: unknown): string {
  if (error instanceof Refusal) return error.hint ? `${error.message}. ${error.hint}` : error.message;
  return error instanceof SyntaxError ? error.message : "the gateway does not answer";
}

/** Numbers of a JSON text, nested or not, or separated by commas and blanks. */
export function numbers(text: string): number[] {
  const trimmed = text.trim();
  const found: unknown = trimmed.startsWith("[") ? JSON.parse(trimmed) : trimmed.split(/[\s,;]+/).filter(Boolean).map(Number);
  const flat = (found as unknown[]).flat(8).map(Number);
  const wrong = flat.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0) throw new SyntaxError(`value ${wrong + 1} of the input is no number`);
  return flat;
}

/** A picture's pixels, row by row, in `channels` values of 0 to 1 each: what most models of pictures were trained on. */
async function pixels(file: Blob, values: number): Promise<number[]> {
  const channels = values % 3 === 0 && Number.isInteger(Math.sqrt(values / 3)) ? 3 : 1;
  const side = Math.sqrt(values / channels);
  if (!Number.isInteger(side)) throw new SyntaxError(`the model takes ${values} values, which is no square picture`);
  const canvas = new OffscreenCanvas(side, side);
  const context = canvas.getContext("2d");
  if (!context) throw new SyntaxError("this browser reads no pictures");
  context.drawImage(await createImageBitmap(file), 0, 0, side, side);
  const { data } = context.getImageData(0, 0, side, side);
  const of = (at: number) => [0, 1, 2].map((channel) => (data[4 * at + channel] ?? 0) / 255);
  const all = Array.from({ length: side * side }, (_, at) => of(at));
  if (channels === 1) return all.map((rgb) => rgb.reduce((sum, value) => sum + value, 0) / 3);
  return [0, 1, 2].flatMap((channel) => all.map((rgb) => rgb[channel] ?? 0));
}

export function Run() {
  const status = useLive<Status>("/v1/status");
  return (
    <Section title="Run a model">
      <Shown of={status} what="grid">{(it) =>
        it.development ? <RunForm /> : (
          <p class="note">This network's gateway has no account to order with: a wallet signs orders. <code>tensorgrid infer MODEL --input FILE</code> does, and asks before it spends.</p>
        )
      }</Shown>
    </Section>
  );
}

function RunForm() {
  const models = useLive<ModelPage>("/v1/models?limit=100");
  const [model, setModel] = useState("");
  const [mode, setMode] = useState<Mode>("proof");
  const [text, setText] = useState("");
  const [outcome, setOutcome] = useState<Inference>();
  const [took, setTook] = useState(0);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const usable = models.value?.items.filter((it) => it.state === "active" && it.facts?.tier === "TGX-1") ?? [];
  const chosen = usable.find((it) => it.id === model) ?? usable[0];
  const take = async (file: File | undefined) => {
    if (!file || !chosen?.facts) return;
    setProblem("");
    try {
      setText(file.type.startsWith("image/") ? JSON.stringify((await pixels(file, chosen.facts.input_len)).map((it) => Number(it.toFixed(4)))) : await file.text());
    } catch (error) {
      setProblem(said(error));
    }
  };
  const order = async (event: Event) => {
    event.preventDefault();
    if (!chosen) return;
    setBusy(true);
    setProblem("");
    setOutcome(undefined);
    const begin = performance.now();
    try {
      setOutcome(await post<Inference>("/v1/dev/infer", { model: chosen.id, mode, input: numbers(text) }));
      setTook(performance.now() - begin);
    } catch (error) {
      setProblem(said(error));
    }
    setBusy(false);
  };
  return (
    <form onSubmit={order} onDragOver={(event) => event.preventDefault()} onDrop={(event) => { event.preventDefault(); void take(event.dataTransfer?.files[0]); }}>
      <div class="fields">
        <label>model <select value={chosen?.id ?? ""} onChange={(event) => setModel(event.currentTarget.value)}>{usable.map((it) => <option key={it.id} value={it.id}>{it.name}</option>)}</select></label>
        <label>verified by <select value={mode} onChange={(event) => setMode(event.currentTarget.value as Mode)}><option value="proof">a proof</option><option value="sync">a drawn committee</option><option value="optimistic">a drawn validator</option><option value="replicate">three drawn providers</option><option value="recompute">running it again</option><option value="none">nobody</option></select></label>
        <label>picture or JSON <input type="file" accept="image/*,.json,.txt" onChange={(event) => void take(event.currentTarget.files?.[0])} /></label>
      </div>
      <label>input{chosen?.facts && <span class="small"> {bytes(chosen.facts.input_len)} as integers; numbers as JSON, or drop a file</span>}
        <textarea rows={6} value={text} onInput={(event) => setText(event.currentTarget.value)} spellcheck={false} required /></label>
      <p><button type="submit" disabled={busy || !chosen}>{busy ? "Running…" : "Order, paid by the development account"}</button></p>
      {usable.length === 0 && <p class="note">No model is registered that takes numbers.</p>}
      {problem && <p class="note bad" role="alert">{problem}</p>}
      {outcome && <Answer of={outcome} took={took} />}
    </form>
  );
}

function Answer({ of, took }: { of: Inference; took: number }) {
  const values = of.answer?.values ?? of.output;
  const best = [...values.keys()].sort((a, b) => (values[b] ?? 0) - (values[a] ?? 0)).slice(0, 5);
  return (
    <div role="status">
      <p>Greatest: <strong>{of.top}</strong>, after {span(took)}; {count(values.length)} values. <a href={`#/job/${of.job}`}>The job</a> has its receipt.</p>
      <Table head={["place", "value"]} empty="" rows={best.map((place) => ({ key: String(place), cells: [place, values[place]] }))} />
    </div>
  );
}

type Message = { role: "user" | "assistant"; content: string; job?: string };

export function Chat() {
  const status = useLive<Status>("/v1/status");
  const [key, setKey] = useState("");
  const [messages, setMessages] = useState<Message[]>([]);
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const used = key || (status.value?.development ? "tensorgrid-development" : "");
  const send = async (event: Event) => {
    event.preventDefault();
    const asked: Message[] = [...messages, { role: "user", content: text }];
    setMessages(asked);
    setText("");
    setBusy(true);
    setProblem("");
    try {
      const headers = { authorization: `Bearer ${used}` };
      const listed = await fetch("/openai/v1/models", { headers });
      const models = (await listed.json()) as { data?: { id: string }[]; error?: { message: string } };
      const model = models.data?.[0]?.id;
      if (!model) throw new Refusal(models.error?.message ?? "no language model is registered", listed.status, "tensorgrid model add-builtin gpt-bytes registers one");
      const body = { model, max_tokens: 120, messages: asked.map(({ role, content }) => ({ role, content })) };
      type Completion = { choices: { message: { content: string } }[]; tensorgrid?: { job?: string } };
      const answered = await post<Completion>("/openai/v1/chat/completions", body, headers);
      const content = answered.choices[0]?.message.content ?? "";
      setMessages([...asked, { role: "assistant", content, ...(answered.tensorgrid?.job ? { job: answered.tensorgrid.job } : {}) }]);
    } catch (error) {
      setProblem(said(error));
    }
    setBusy(false);
    field.current?.focus();
  };
  return (
    <Section title="Chat" aside="each answer is a job, charged to the account of the key">
      <ol class="chat" aria-live="polite">
        {messages.map((message, index) => (
          <li key={index} class={message.role}><pre>{message.content}</pre>{message.job && <Id of={message.job} to="job" />}</li>
        ))}
        {busy && <li class="assistant" aria-busy="true"><span class="small">a provider writes…</span></li>}
      </ol>
      {problem && <p class="note bad" role="alert">{problem}</p>}
      <form onSubmit={send}>
        <label>message <textarea ref={field} rows={3} value={text} onInput={(event) => setText(event.currentTarget.value)} required /></label>
        <div class="fields">
          <label>API key <input type="password" autocomplete="off" value={key} placeholder={status.value?.development ? "the development key" : "tensorgrid api-key new"} onInput={(event) => setKey(event.currentTarget.value)} /></label>
          <button type="submit" disabled={busy || !used}>Send</button>
        </div>
      </form>
      <p class="small">The built-in gpt-bytes was trained on a megabyte of plays: it continues text, and knows nothing.</p>
    </Section>
  );
}
