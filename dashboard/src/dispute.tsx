// The dispute about a result: who accuses, whose turn it is, what was handed in, and how it ended.

import type { ComponentChildren } from "preact";
import type { GridEvent, Job, JobEvents, Lease, Status } from "./api.ts";
import { count, disputeOutcome, shortened, span } from "./format.ts";
import { useLive } from "./live.ts";
import { Id, Section, Table } from "./parts.tsx";

// What happens in disputes, and what comes of them.
const KINDS = new Set(["result_disputed", "result_argued", "accusation_refuted", "vote_refuted", "challenge_returned", "run_charged", "lease_rejected"]);

/** The file that an event is about, to be downloaded. */
function FileLink({ of, name }: { of: string; name: string }) {
  return <a href={`/v1/blobs/${of}`} download={name}><code title={of}>{of.slice(0, 12)}…</code></a>;
}

/** The steps of a job's disputes; nothing of a job that nobody accused. */
export function Disputes({ job }: { job: Job }) {
  const events = useLive<JobEvents>(`/v1/jobs/${job.id}/events`);
  const open = job.leases.find((lease) => lease.check?.dispute);
  const steps = (events.value?.items ?? []).filter((event) => KINDS.has(event.kind));
  const began = job.history.filter((step) => step.state === "disputed");
  if (!open && began.length === 0 && !steps.some((event) => event.kind === "result_disputed")) return null;
  const since = events.value?.since;
  const isWhole = since != null && since <= (job.history[0]?.height ?? 0);
  return (
    <Section title="Dispute">
      {open?.check?.dispute && <Turn lease={open} />}
      <Table
        head={["block", "when", "who", "what", "file"]}
        empty="This node remembers no step of it."
        rows={steps.map((event, index) => ({
          key: `${event.height} ${index}`,
          cells: [
            count(event.height),
            new Date(event.timestamp_ms).toLocaleTimeString(),
            event.account ? <>{side(job, event)} <Id of={event.account} /></> : side(job, event),
            shortened(event.text),
            event.file ? <FileLink of={event.file} name={`${job.id}.${event.kind}.bin`} /> : "",
          ],
        }))}
      />
      <p role="status">{disputeOutcome(job)}</p>
      {!isWhole && <p class="small">Steps before {since == null ? "now" : `block ${count(since)}`} may be missing: this node remembers what it saw since it serves.</p>}
    </Section>
  );
}

/** Which side an account is on. */
function side(job: Job, event: GridEvent): string {
  if (event.kind === "result_disputed") return "accuser";
  const lease = job.leases.find((it) => it.id === event.lease);
  if (event.kind !== "result_argued") return "";
  return lease?.provider === event.account ? "provider" : "accuser";
}

const TURNS = {
  accuser: ["The accuser's turn", "it hands in what all tiles of a right run are"],
  provider: ["The provider's turn", "it hands in the first tile of the claim that is wrong, with what that reads"],
  validators: ["The validators' turn", "each computes the tile that is in dispute"],
} as const;

/** Whose turn it is in a dispute that goes on. */
function Turn({ lease }: { lease: Lease }) {
  const status = useLive<Status>("/v1/status");
  const dispute = lease.check?.dispute;
  if (!dispute) return null;
  const [whose, what] = TURNS[dispute.turn];
  const left = status.value && dispute.turn !== "validators" ? dispute.until_ms - status.value.ledger_time_ms : undefined;
  const rows: [string, ComponentChildren][] = [
    ["accuser", <Id of={dispute.accuser} />],
    ["provider", <Id of={lease.provider} to="provider" />],
    ["claim", dispute.claim ? <FileLink of={dispute.claim} name="claim.bin" /> : "not handed in yet"],
    ["answer", dispute.answer ? <FileLink of={dispute.answer} name="answer.bin" /> : "not handed in yet"],
  ];
  return (
    <>
      <p><b>{whose}</b>: {dispute.waits_for_file ? what : dispute.turn === "validators" ? what : "validators fetch what it handed in"}{left !== undefined && `; ${span(left)} are left, or it loses`}.</p>
      <dl class="facts">{rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {dispute.waiting > 0 && <p class="small">{count(dispute.waiting)} challenged meanwhile and wait for a dispute of their own.</p>}
    </>
  );
}
