// The grid at a glance.

import { useEffect, useState } from "preact/hooks";
import type { GridEvent, Job, JobPage, Offer, OfferPage, Seats, Status } from "./api.ts";
import { amount, count, median, perMinute, shortened, span, success } from "./format.ts";
import { useEvents, useLive, useNow } from "./live.ts";
import { Figure, Id, Section, Series, Shown, State, Table, Tgrid } from "./parts.tsx";

const MINUTES = 30;

export function Overview() {
  const status = useLive<Status>("/v1/status", 500, 1_000);
  const jobs = useLive<JobPage>("/v1/jobs?limit=200", 4_000);
  const offers = useLive<OfferPage>("/v1/offers?limit=200", 4_000);
  const seats = useLive<Seats>("/v1/seats", 4_000);
  const models = useLive<{ total: number }>("/v1/models?limit=1", 10_000);
  const events = useEvents();
  const now = useNow();
  const pace = usePace(status.value);
  const items = offers.value?.items ?? [];
  const reachable = items.filter((offer) => !offer.offline).length;
  return (
    <>
      <Shown of={status} what="grid">{(it) => (
        <dl class="figures">
          <Figure name="Final block" value={<a href={`#/block/${it.height}`}>{count(it.height)}</a>} note={<>{span(now - it.timestamp_ms)} ago{pace !== undefined && `, one each ${span(pace)}`}</>} />
          <Figure name="Jobs in work" value={count(it.jobs.active)} note={`${count(it.jobs.queued)} in the queue, ${count(it.jobs.ended)} ended`} />
          <Figure name="Offers" value={offers.value ? count(offers.value.total) : "…"} note={offers.value && (reachable === items.length ? "all reachable" : `${count(reachable)} of ${count(items.length)} reachable`)} />
          <Figure name="Validators" value={<a href="#/validators">{it.validators}</a>} note={seats.value && `term ${seats.value.term}, ${seats.value.applicants.length} ask for a seat`} />
          <Figure name="In escrow" value={<Tgrid of={it.totals.escrow} />} note="TGRID, for jobs that go on" />
          <Figure name="Burned" value={<Tgrid of={it.totals.burned} />} note={<>TGRID of <Tgrid of={it.totals.minted} /></>} />
        </dl>
      )}</Shown>
      {models.value?.total === 0 && <p class="note">No model is registered yet: <code>tensorgrid model add-builtin</code> registers the built-in ones.</p>}
      <div class="columns">
        <Section title="Jobs" aside={<a href="#/jobs">all jobs</a>}>
          <JobsPerMinute jobs={jobs.value?.items ?? []} now={now} whole={(jobs.value?.total ?? 0) <= (jobs.value?.items.length ?? 0)} />
        </Section>
        <Section title="Blocks" aside={<a href="#/blocks">explorer</a>}>
          <Blocks events={events} height={status.value?.height ?? 0} />
        </Section>
      </div>
      <div class="columns">
        <Section title="Newest jobs" aside={<a href="#/run">order one</a>}>
          <Shown of={jobs} what="jobs">{(page) => (
            <Table
              head={["job", "state", "verify", "price"]}
              empty="No jobs yet. The first one is ordered under Order."
              rows={page.items.slice(0, 8).map((job) => ({
                key: job.id,
                cells: [<Id of={job.id} to="job" />, <State of={job.state} />, job.mode, job.settlement ? <Tgrid of={job.settlement.price} /> : <span class="small">at most <Tgrid of={job.max_price} /></span>],
              }))}
            />
          )}</Shown>
        </Section>
        <Section title="Price by class" aside={<a href="#/offers">all offers</a>}>
          <Shown of={offers} what="offers">{(page) => <Prices offers={page.items} />}</Shown>
        </Section>
      </div>
      <div class="columns">
        <Section title="Providers by region" aside="as they declare it">
          <Shown of={offers} what="offers">{(page) => <Regions offers={page.items} />}</Shown>
        </Section>
        <Section title="What happens" aside="since this page was opened">
          {events.length === 0 ? <p class="note">Nothing yet.</p> : (
            <ol class="events" tabIndex={0} aria-label="events">{events.slice(0, 60).map((event, index) => (
              <li key={events.length - index}><a class="small" href={`#/block/${event.height}`}>{count(event.height)}</a> {event.job ? <a href={`#/job/${event.job}`} title={event.text}>{shortened(event.text)}</a> : <span title={event.text}>{shortened(event.text)}</span>}</li>
            ))}</ol>
          )}
        </Section>
      </div>
    </>
  );
}

/** How long a block takes, in milliseconds: over what this page saw, and nothing before it saw some. */
function usePace(status: Status | undefined): number | undefined {
  const [first, setFirst] = useState<Status>();
  useEffect(() => {
    if (status && !first) setFirst(status);
  }, [status, first]);
  if (!status || !first || status.height <= first.height) return undefined;
  return (status.timestamp_ms - first.timestamp_ms) / (status.height - first.height);
}

function JobsPerMinute({ jobs, now, whole }: { jobs: Job[]; now: number; whole: boolean }) {
  const minutes = perMinute(jobs.map((job) => job.history[0]?.at_ms ?? 0), now, MINUTES);
  const last = minutes.at(-1) ?? 0;
  const failed = jobs.filter((job) => job.state === "refunded" || job.state === "expired").length;
  const paid = jobs.filter((job) => job.state === "paid").length;
  return (
    <>
      <Series values={minutes} label="Jobs per minute" unit="in one" from={`${MINUTES} min ago`} to={`${last} in this minute`} />
      <p class="small">Of the newest {count(jobs.length)}{whole && " (all there are)"}: {count(paid)} paid, {count(failed)} without a result, {count(jobs.length - paid - failed)} other.</p>
    </>
  );
}

/** Events of each of the last blocks that this page saw. */
function Blocks({ events, height }: { events: GridEvent[]; height: number }) {
  const heights = new Map<number, number>();
  for (const event of events) heights.set(event.height, (heights.get(event.height) ?? 0) + 1);
  const last = Math.max(height, 0, ...heights.keys());
  const shown = Array.from({ length: 60 }, (_, back) => heights.get(last - 59 + back) ?? 0);
  const all = shown.reduce((sum, number) => sum + number, 0);
  return (
    <>
      <Series values={shown} label="Events of the last 60 blocks" unit="in one" from={`block ${count(Math.max(0, last - 59))}`} to={`block ${count(last)}`} />
      <p class="small">{all === 0 ? "Empty ones, as far as this page saw them: " : `${count(all)} events, as far as this page saw them. `}{all === 0 ? "nothing was ordered or changed." : "Each block here is final: no other can take its place."}</p>
    </>
  );
}

/** What kind of machine is behind an offer. */
export function machineClass(offer: Offer): string {
  const machine = offer.terms.machine;
  return machine && machine.gpus > 0 ? machine.gpu : "CPU";
}

function grouped<K>(offers: Offer[], key: (offer: Offer) => K): [K, Offer[]][] {
  const groups = new Map<K, Offer[]>();
  for (const offer of offers) groups.set(key(offer), [...(groups.get(key(offer)) ?? []), offer]);
  return [...groups].sort((a, b) => b[1].length - a[1].length);
}

function Prices({ offers }: { offers: Offer[] }) {
  return (
    <Table
      head={["class", "offers", "a job from", "a million MACs from", "median", "free slots"]}
      empty="No provider offers anything yet: tensorgrid provider --api URL adds one."
      rows={grouped(offers, machineClass).map(([name, of]) => {
        const prices = of.map((offer) => Number(offer.terms.price_per_mmac));
        return {
          key: name,
          cells: [
            name,
            count(of.length),
            amount(String(Math.min(...of.map((offer) => Number(offer.terms.price_base))))),
            amount(String(Math.min(...prices))),
            amount(String(median(prices))),
            `${count(of.reduce((sum, offer) => sum + Math.max(0, offer.terms.slots - offer.leases), 0))} of ${count(of.reduce((sum, offer) => sum + offer.terms.slots, 0))}`,
          ],
        };
      })}
    />
  );
}

function Regions({ offers }: { offers: Offer[] }) {
  return (
    <Table
      head={["region", "providers", "offers", "reachable", "results"]}
      empty="No provider yet."
      rows={grouped(offers, (offer) => offer.terms.machine?.region ?? 0).map(([region, of]) => {
        const all = new Map(of.map((offer) => [offer.provider, offer.reputation]));
        const sum = (what: "accepted" | "late" | "rejected" | "abandoned") => [...all.values()].reduce((total, it) => total + it[what], 0);
        return {
          key: String(region),
          cells: [`region ${region}`, count(all.size), count(of.length), count(of.filter((offer) => !offer.offline).length), success({ accepted: sum("accepted"), late: sum("late"), rejected: sum("rejected"), abandoned: sum("abandoned") })],
        };
      })}
    />
  );
}
