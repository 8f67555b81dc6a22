// Endpoints: models that a provider serves for some time; on networks labelled development they are opened, topped up and closed here.

import { useState } from "preact/hooks";
import { post, Refusal, type Job, type JobPage, type Lease, type Model, type ModelPage, type Status } from "./api.ts";
import { count, leftAt, minutesLeft, runsOutMs } from "./format.ts";
import { useLive, useNow } from "./live.ts";
import { Id, Section, Shown, State, Table, Tgrid } from "./parts.tsx";

const ENDED = new Set(["paid", "refunded", "expired", "cancelled"]);

/** The lease by which an endpoint is served. */
export function serving(job: Job): Lease | undefined {
  return job.leases.find((lease) => !lease.end);
}

function said(error: unknown): string {
  if (error instanceof Refusal) return error.hint ? `${error.message}. ${error.hint}` : error.message;
  return "the gateway does not answer";
}

export function Endpoints() {
  const [after, setAfter] = useState<string>();
  const jobs = useLive<JobPage>(`/v1/jobs?mode=endpoint&limit=200${after ? `&after=${after}` : ""}`);
  const models = useLive<ModelPage>("/v1/models?limit=200");
  const status = useLive<Status>("/v1/status");
  const [told, setTold] = useState<{ text: string; bad: boolean }>();
  const names = new Map(models.value?.items.map((model) => [model.id, model]));
  const does = async (what: string, done: () => Promise<string>) => {
    setTold({ text: `${what}…`, bad: false });
    try {
      setTold({ text: await done(), bad: false });
    } catch (error) {
      setTold({ text: said(error), bad: true });
    }
  };
  return (
    <>
      <Section title="Endpoints" aside={jobs.value && `${count(jobs.value.items.filter((job) => !ENDED.has(job.state)).length)} open`}>
        <p class="small">A provider serves a model for some time, paid by the minute and for each answer. Answers go to whoever opened it, sealed, and are checked by nobody else; answers are counted here when the provider claims them.</p>
        <p role="status" class={told?.bad ? "note bad" : "note"}>{told?.text}</p>
        <Shown of={jobs} what="endpoints">{(page) => (
          <>
            <Open jobs={page.items.filter((job) => !ENDED.has(job.state))} models={names} development={status.value?.development ?? false} does={does} />
            <Past jobs={page.items.filter((job) => ENDED.has(job.state)).slice(0, 20)} models={names} />
            <nav class="pages" aria-label="newer and older">
              {after && <button onClick={() => setAfter(undefined)}>newest</button>}
              {page.next && <button onClick={() => setAfter(page.next ?? undefined)}>older</button>}
            </nav>
          </>
        )}</Shown>
      </Section>
      {status.value && (status.value.development
        ? <OpenOne models={models.value?.items ?? []} does={does} />
        : <p class="note">A wallet opens endpoints: <code>tensorgrid endpoint open MODEL --money N</code>, then <code>endpoint ask</code>, <code>write</code>, <code>top-up</code>, <code>close</code>.</p>)}
    </>
  );
}

type Does = (what: string, done: () => Promise<string>) => Promise<void>;

function Open({ jobs, models, development, does }: { jobs: Job[]; models: Map<string, Model>; development: boolean; does: Does }) {
  const now = useNow();
  return (
    <Table
      head={["endpoint", "stands", "model", "provider", "a minute", "an answer", "answers", "paid", "left", "runs out", "evidence", ...(development ? ["money"] : [])]}
      empty="No endpoint is open."
      rows={jobs.map((job) => {
        const lease = serving(job);
        const meter = lease?.meter;
        const out = meter && runsOutMs({ escrow: job.escrow, deadline_ms: job.deadline_ms }, meter);
        return {
          key: job.id,
          cells: [
            <Id of={job.id} to="job" />,
            <Standing job={job} />,
            <ModelName of={models.get(job.model)} id={job.model} />,
            lease ? <Id of={lease.provider} to="provider" /> : "",
            meter ? <Tgrid of={meter.minute} /> : "",
            lease ? <Tgrid of={lease.price} /> : "",
            meter ? count(meter.answered) : "",
            <Tgrid of={job.served ?? "0"} />,
            meter ? <span title={`${job.escrow} TGRID are locked, of which time since the last claim is owed`}>{leftAt(job.escrow, meter, now)}</span> : <Tgrid of={job.escrow} />,
            out == null ? "" : <time dateTime={new Date(out).toISOString()} title={new Date(out).toLocaleString()}>{minutesLeft(out, now)}</time>,
            evidence(models.get(job.model)),
            ...(development ? [<Money job={job} does={does} />] : []),
          ],
        };
      })}
    />
  );
}

/** Where an endpoint stands, in its own words. */
function Standing({ job }: { job: Job }) {
  if (job.state === "queued" && Number(job.escrow) === 0) return <span class="state bad">waits for money</span>;
  if (job.state === "running" && serving(job)?.meter?.ends_ms) return <span class="state quiet">ends</span>;
  if (job.state === "running") return <span class="state good">served</span>;
  return <State of={job.state} />;
}

function ModelName({ of, id }: { of: Model | undefined; id: string }) {
  return of ? <a href={`#/model/${id}`}>{of.name}</a> : <Id of={id} to="model" />;
}

/** Who can check what an endpoint of a model answers. */
function evidence(model: Model | undefined): string {
  if (model?.facts?.tier === "served") return "nobody: a provider's own server answers";
  return model?.facts?.provable ? "its provider's signature; a proof if it is asked for" : "its provider's signature";
}

/** More money for an endpoint, or its end. */
function Money({ job, does }: { job: Job; does: Does }) {
  const [money, setMoney] = useState("1");
  const short = job.id.slice(0, 10);
  const more = (event: Event) => {
    event.preventDefault();
    void does(`Locking ${money} TGRID more for ${short}`, async () => {
      const after = await post<Job>(`/v1/dev/endpoints/${job.id}/top-up`, { money });
      return `${short} has ${after.max_price} TGRID in all`;
    });
  };
  const end = () => does(`Ending ${short}`, async () => {
    await post<Job>(`/v1/dev/endpoints/${job.id}/close`, {});
    return `${short} ends: its provider has some seconds for its last claim, then the rest comes back`;
  });
  return (
    <form class="inline" onSubmit={more}>
      <input aria-label={`TGRID more for endpoint ${short}`} inputMode="decimal" pattern="[0-9]+(\.[0-9]{1,18})?" title="TGRID, such as 1.5" value={money} onInput={(event) => setMoney(event.currentTarget.value)} required />
      <button type="submit" aria-label={`top up endpoint ${short}`}>top up</button>
      <button type="button" class="plain" aria-label={`close endpoint ${short}`} onClick={() => void end()}>close</button>
    </form>
  );
}

function Past({ jobs, models }: { jobs: Job[]; models: Map<string, Model> }) {
  if (jobs.length === 0) return null;
  return (
    <>
      <h3>Ended</h3>
      <Table
        head={["endpoint", "stands", "model", "paid", "came back", "why"]}
        empty=""
        rows={jobs.map((job) => ({
          key: job.id,
          cells: [
            <Id of={job.id} to="job" />,
            <State of={job.state} />,
            <ModelName of={models.get(job.model)} id={job.model} />,
            <Tgrid of={job.settlement?.price ?? job.served ?? "0"} />,
            job.settlement ? <Tgrid of={job.settlement.refund} /> : "",
            job.reason ?? "",
          ],
        }))}
      />
    </>
  );
}

/** Opens one with the development account. */
function OpenOne({ models, does }: { models: Model[]; does: Does }) {
  const [model, setModel] = useState("");
  const [money, setMoney] = useState("2");
  const [minutes, setMinutes] = useState("60");
  const usable = models.filter((it) => it.state === "active" && it.facts?.tier === "TGX-1");
  const chosen = usable.find((it) => it.id === model) ?? usable[0];
  const open = (event: Event) => {
    event.preventDefault();
    if (!chosen) return;
    void does(`Opening an endpoint of ${chosen.name}`, async () => {
      const job = await post<Job>("/v1/dev/endpoints", { model: chosen.id, money, minutes: Number(minutes) });
      return `${job.id.slice(0, 10)} is ordered; it is served as soon as a provider has started it`;
    });
  };
  return (
    <Section title="Open one" aside="paid by the development account">
      <form onSubmit={open}>
        <div class="fields">
          <label>model <select value={chosen?.id ?? ""} onChange={(event) => setModel(event.currentTarget.value)}>{usable.map((it) => <option key={it.id} value={it.id}>{it.name}</option>)}</select></label>
          <label>TGRID that are locked <input inputMode="decimal" pattern="[0-9]+(\.[0-9]{1,18})?" title="TGRID, such as 1.5" value={money} onInput={(event) => setMoney(event.currentTarget.value)} required /></label>
          <label>minutes at most <input type="number" min={1} max={10080} value={minutes} onInput={(event) => setMinutes(event.currentTarget.value)} required /></label>
          <button type="submit" disabled={!chosen}>Open</button>
        </div>
      </form>
      {usable.length === 0 && <p class="note">No model is registered that endpoints serve.</p>}
    </Section>
  );
}
