// The grid at a glance.

import type { GridEvent, JobPage, OfferPage, Seats, Status } from "./api.ts";
import { count, shortened, span, success } from "./format.ts";
import { useEvents, useLive, useNow } from "./live.ts";
import { Figure, Id, Section, Shown, State, Table, Tgrid } from "./parts.tsx";

export function Overview() {
  const status = useLive<Status>("/v1/status");
  const jobs = useLive<JobPage>("/v1/jobs?limit=12");
  const offers = useLive<OfferPage>("/v1/offers?limit=12");
  const seats = useLive<Seats>("/v1/seats");
  const events = useEvents(200);
  const now = useNow();
  return (
    <>
      <Shown of={status} what="grid">{(it) => (
        <dl class="figures">
          <Figure name="Final height" value={count(it.height)} note={`last block ${span(now - it.timestamp_ms)} ago`} />
          <Figure name="Jobs in work" value={count(it.jobs.active)} note={`${count(it.jobs.queued)} wait, ${count(it.jobs.ended)} ended`} />
          <Figure name="Offers" value={offers.value ? count(offers.value.total) : "…"} note={offers.value && `${count(offers.value.items.filter((o) => !o.offline).length)} of the first ${offers.value.items.length} reachable`} />
          <Figure name="Validators" value={it.validators} note={seats.value && `term ${seats.value.term}, ${seats.value.applicants.length} ask for a seat`} />
          <Figure name="In escrow" value={<Tgrid of={it.totals.escrow} />} note="TGRID" />
          <Figure name="Burned" value={<Tgrid of={it.totals.burned} />} note={<>of <Tgrid of={it.totals.minted} /> minted</>} />
        </dl>
      )}</Shown>
      <Blocks events={events} />
      <div class="columns">
        <Section title="Newest jobs" aside={<a href="#/jobs">all</a>}>
          <Shown of={jobs} what="jobs">{(page) => (
            <Table
              head={["job", "state", "verify", "at most"]}
              empty="No jobs yet. Order one under Run."
              rows={page.items.map((job) => ({
                key: job.id,
                cells: [<Id of={job.id} to="job" />, <State of={job.state} />, job.mode, <Tgrid of={job.max_price} />],
              }))}
            />
          )}</Shown>
        </Section>
        <Section title="Offers" aside={<a href="#/offers">all</a>}>
          <Shown of={offers} what="offers">{(page) => (
            <Table
              head={["provider", "hardware", "a million MACs", "results"]}
              empty="No provider offers anything yet."
              rows={page.items.map((offer) => ({
                key: offer.id,
                cells: [
                  <Id of={offer.provider} to="provider" />,
                  <>{offer.terms.hardware}{offer.offline && <span class="state bad"> silent</span>}</>,
                  <Tgrid of={offer.terms.price_per_mmac} />,
                  success(offer.reputation),
                ],
              }))}
            />
          )}</Shown>
        </Section>
      </div>
      <Section title="What happens" aside="since this page was opened">
        {events.length === 0 ? <p class="note">Nothing yet.</p> : (
          <ol class="events">{events.slice(0, 60).map((event, index) => (
            <li key={events.length - index}><span class="small">{count(event.height)}</span> {event.job ? <a href={`#/job/${event.job}`} title={event.text}>{shortened(event.text)}</a> : <span title={event.text}>{shortened(event.text)}</span>}</li>
          ))}</ol>
        )}
      </Section>
    </>
  );
}

/** Events of each of the last blocks that had some. */
function Blocks({ events }: { events: GridEvent[] }) {
  const heights = new Map<number, number>();
  for (const event of events) heights.set(event.height, (heights.get(event.height) ?? 0) + 1);
  const last = Math.max(0, ...heights.keys());
  if (last === 0) return null;
  const shown = Array.from({ length: 60 }, (_, back) => last - 59 + back).map((height) => [height, heights.get(height) ?? 0] as const);
  const most = Math.max(4, ...shown.map(([, number]) => number));
  const label = `events of the last 60 blocks, at most ${most} in one`;
  return (
    <svg class="bars" role="img" aria-label={label} viewBox={`0 0 ${shown.length * 8} 30`} preserveAspectRatio="none">
      {shown.map(([height, number], index) => (
        <rect key={height} x={index * 8} width="6" y={30 - (28 * number) / most} height={(28 * number) / most}><title>{`block ${height}: ${number} events`}</title></rect>
      ))}
    </svg>
  );
}
