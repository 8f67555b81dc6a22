// Jobs: the list, and one with its timeline, why it waits or what it cost, and its receipt.

import { useState } from "preact/hooks";
import type { Job, JobPage, JobReceipt, JobWhy, Lease, ModelPage, Offer } from "./api.ts";
import { Disputes } from "./dispute.tsx";
import { bytes, count, span, success, work } from "./format.ts";
import { useLive, useNow } from "./live.ts";
import { Facts, Id, Section, Shown, State, Table, Tgrid } from "./parts.tsx";
import { VerifyJob } from "./verify.tsx";

// Who looked at the result of a job.
const verifier: Record<Job["mode"], string> = {
  none: "nobody; it is paid when enough validators hold the answer",
  proof: "a proof that every validator checks",
  recompute: "every validator, which runs it again",
  sync: "a drawn committee, which runs it again if it is short, else computes drawn parts again",
  optimistic: "a drawn validator, which runs it again; then anybody may have all do so",
  replicate: "drawn providers, whose sealed results are compared; where they differ every validator",
  sealed: "whoever ordered alone; if it shows its key, every validator",
  endpoint: "the requestor judges each answer and pays by vouchers",
};

export function Jobs() {
  const [after, setAfter] = useState<string>();
  const jobs = useLive<JobPage>(`/v1/jobs?limit=50${after ? `&after=${after}` : ""}`);
  const models = useLive<ModelPage>("/v1/models?limit=200", 10_000);
  const names = new Map(models.value?.items.map((model) => [model.id, model.name]));
  return (
    <Section title="Jobs" aside={jobs.value && `${count(jobs.value.total)} kept`}>
      <Shown of={jobs} what="jobs">{(page) => (
        <>
          <Table
            head={["job", "ordered", "state", "verify", "model", "leases", "at most", "paid"]}
            empty="No jobs yet. The first one is ordered under Order."
            rows={page.items.map((job) => ({
              key: job.id,
              cells: [
                <Id of={job.id} to="job" />,
                new Date(job.history[0]?.at_ms ?? 0).toLocaleTimeString(),
                <State of={job.state} />,
                job.mode,
                names.has(job.model) ? <a href={`#/model/${job.model}`}>{names.get(job.model)}</a> : <Id of={job.model} to="model" />,
                job.leases.length,
                <Tgrid of={job.max_price} />,
                job.settlement ? <Tgrid of={job.settlement.price} /> : "",
              ],
            }))}
          />
          <nav class="pages" aria-label="newer and older">
            {after && <button onClick={() => setAfter(undefined)}>newest</button>}
            {page.next && <button onClick={() => setAfter(page.next ?? undefined)}>older</button>}
          </nav>
        </>
      )}</Shown>
    </Section>
  );
}

const ENDED = new Set(["paid", "refunded", "expired", "cancelled"]);

export function JobDetail({ id }: { id: string }) {
  const job = useLive<Job>(`/v1/jobs/${id}`);
  return (
    <Shown of={job} what="job">{(it) => (
      <>
        <h1>Job <code>{it.id}</code></h1>
        <p><State of={it.state} /> {it.reason}</p>
        <Section title="Timeline"><Timeline job={it} /></Section>
        <div class="columns">
          {it.state === "paid" ? <Receipt id={id} /> : !ENDED.has(it.state) && <Why id={id} />}
          <div>
            <Section title="Order"><Order job={it} /></Section>
            <Chosen job={it} />
          </div>
        </div>
        <Disputes job={it} />
        <Section title="Leases"><Leases of={it.leases} state={it.state} /></Section>
      </>
    )}</Shown>
  );
}

function Timeline({ job }: { job: Job }) {
  const now = useNow();
  const begin = job.history[0]?.at_ms ?? now;
  const last = job.history.at(-1);
  const end = ENDED.has(job.state) && last ? last.at_ms : Math.max(now, last?.at_ms ?? now);
  const whole = Math.max(1, end - begin);
  return (
    <ol class="timeline">
      {job.history.map((step, index) => {
        const until = job.history[index + 1]?.at_ms ?? end;
        const left = (100 * (step.at_ms - begin)) / whole;
        const width = Math.max(0.5, (100 * (until - step.at_ms)) / whole);
        return (
          <li key={index}>
            <State of={step.state} />
            <span class="bar" aria-hidden="true"><i style={{ left: `${left}%`, width: `${Math.min(width, 100 - left)}%` }} /></span>
            <span class="small">block {count(step.height)}, {index + 1 < job.history.length ? span(until - step.at_ms) : ENDED.has(step.state) ? `after ${span(step.at_ms - begin)}` : `${span(until - step.at_ms)} so far`}</span>
          </li>
        );
      })}
    </ol>
  );
}

/** For how long validators have to serve the answer, and how many said that they hold it. */
function kept(job: Job): string {
  if (job.kept) return `until ${new Date(job.kept.until_ms).toLocaleString()}, by ${job.kept.seats.length} of ${job.kept.validators} validators`;
  const time = job.retention_ms ?? 0;
  return time === 0 ? "by nobody" : `for ${span(time)} once it is paid`;
}

function Order({ job }: { job: Job }) {
  return (
    <Facts of={[
      ["requestor", <Id of={job.requestor} />],
      ["model", <Id of={job.model} to="model" />],
      ["input", <><Id of={job.input} /> {bytes(job.input_len)}</>],
      ["work", work(job.macs)],
      ["verified by", verifier[job.mode]],
      ["at most", <><Tgrid of={job.max_price} /> TGRID and <Tgrid of={job.verification_fee} /> for verification</>],
      ["until", new Date(job.deadline_ms).toLocaleString()],
      ["attempts", `${job.leases.length} of ${job.max_attempts}`],
      ["answer kept", kept(job)],
    ]} />
  );
}

function Why({ id }: { id: string }) {
  const why = useLive<JobWhy>(`/v1/jobs/${id}/why`);
  return (
    <Section title="Why it stands there">
      <Shown of={why} what="reason">{(it) => (
        <>
          <p>{it.summary}</p>
          {it.hint && <p class="small">{it.hint}</p>}
          {it.constraints.length > 0 && <Table head={["what offers lack", "offers"]} empty="" rows={it.constraints.map((c) => ({ key: c.constraint, cells: [c.constraint, count(c.rejected)] }))} />}
          {(it.relaxations ?? []).length > 0 && <><p>It would run with</p><ul>{(it.relaxations ?? []).map((text) => <li key={text}>{text}</li>)}</ul></>}
        </>
      )}</Shown>
    </Section>
  );
}

function Receipt({ id }: { id: string }) {
  const receipt = useLive<JobReceipt>(`/v1/jobs/${id}/receipt`);
  return (
    <Section title="Receipt">
      <Shown of={receipt} what="receipt">{(it) => (
        <>
          <Facts of={[
            ["provider", <Id of={it.lease.provider} to="provider" />],
            ["semantics", it.receipt.tier],
            ["program", <Id of={it.receipt.program} />],
            ["output", <a href={`/v1/blobs/${it.receipt.output}`} download={`${id}.output`}><code title={it.receipt.output}>{it.receipt.output.slice(0, 12)}…</code></a>],
            ["evidence", it.evidence ? <a href={`/v1/blobs/${it.evidence}`} download={`${id}.evidence`}><code title={it.evidence}>{it.evidence.slice(0, 12)}…</code></a> : it.job.mode === "replicate" ? "none: every validator ran it" : "none: nobody checked this result"],
            ["trace", <Id of={it.receipt.trace} />],
            ["paid", <><Tgrid of={it.settlement.price} /> TGRID, <Tgrid of={it.settlement.verification_fee} /> to validators, <Tgrid of={it.settlement.refund} /> back</>],
          ]} />
          <VerifyJob of={it} />
        </>
      )}</Shown>
    </Section>
  );
}

/** Which offer took the job, and why that one. */
function Chosen({ job }: { job: Job }) {
  const leases = job.leases.filter((lease) => !lease.lead);
  const lease = leases.at(-1);
  const offer = useLive<Offer>(lease ? `/v1/offers/${lease.offer}` : "/v1/offers/none", 10_000);
  if (!lease) return null;
  const it = offer.value;
  const waited = (job.history.find((step) => step.state === "leased")?.at_ms ?? lease.matched_ms) - (job.history[0]?.at_ms ?? lease.matched_ms);
  return (
    <Section title="Offer chosen" aside={<Id of={lease.offer} />}>
      <Facts of={[
        ["provider", <Id of={lease.provider} to="provider" />],
        ["hardware", it ? it.terms.hardware : offer.missing ? "the offer was taken back since" : "…"],
        ["price", <><Tgrid of={lease.price} /> of at most <Tgrid of={job.max_price} /> TGRID</>],
        ["at stake", <><Tgrid of={lease.collateral} /> TGRID, lost by a wrong, late or undelivered result</>],
        ["its record", it ? success(it.reputation) : "…"],
        ["waited", span(waited)],
        ["attempt", leases.length > 1 ? `${leases.length}, after ${leases.slice(0, -1).map((old) => old.end_text ?? "one that ended").join("; ")}` : "the first one"],
      ]} />
      <p class="small">A job is leased to the cheapest offer that fits it: its mode, machine and memory, a free slot, a price below the maximum. <a href={`#/model/${job.model}`}>The model's page</a> has the order of the offers as they stand now.</p>
    </Section>
  );
}

function Leases({ of, state }: { of: Lease[]; state: string }) {
  return (
    <Table
      head={["lease", "provider", "price", "collateral", "matched", "end"]}
      empty="No provider had it yet."
      rows={of.map((lease) => ({
        key: lease.id,
        cells: [
          <Id of={lease.id} />,
          <Id of={lease.provider} to="provider" />,
          <Tgrid of={lease.price} />,
          <Tgrid of={lease.collateral} />,
          new Date(lease.matched_ms).toLocaleTimeString(),
          lease.end_text ?? (lease.started ? state : "not started"),
        ],
      }))}
    />
  );
}
