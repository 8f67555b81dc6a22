// What is there to run jobs: offers, providers, models, validators.

import { useState } from "preact/hooks";
import type { Job, JobPage, Lease, Model, ModelPage, Offer, OfferPage, Provider, QuotePage, Seats, Status } from "./api.ts";
import { bytes, count, span, success, tight, work } from "./format.ts";
import { useLive, useNow } from "./live.ts";
import { Copy, Facts, Figure, Id, Meter, Section, Series, Shown, State, Table, Tgrid } from "./parts.tsx";

function machine(offer: Offer): string {
  const { machine: it } = offer.terms;
  if (!it) return "CPU";
  return it.gpus > 0 ? `${it.gpus} × ${it.gpu}, ${bytes(it.gpu_memory_mib * 2 ** 20)} each` : "CPU";
}

function offerRows(offers: Offer[], withProvider: boolean) {
  return offers.map((offer) => ({
    key: offer.id,
    cells: [
      ...(withProvider ? [<Id of={offer.provider} to="provider" />] : []),
      <>{offer.terms.hardware}{offer.offline && <span class="state bad"> silent</span>}</>,
      machine(offer),
      tight(bytes(offer.terms.memory_bytes)),
      tight(`${offer.leases} of ${offer.terms.slots}`),
      <Tgrid of={offer.terms.price_base} />,
      <Tgrid of={offer.terms.price_per_mmac} />,
      offer.terms.modes.join(", "),
      tight(success(offer.reputation)),
    ],
  }));
}

const OFFER_HEAD = ["hardware", "machine", "memory", "busy", "base price", "a million MACs", "verify", "results"];

export function Offers() {
  const [after, setAfter] = useState<string>();
  const offers = useLive<OfferPage>(`/v1/offers?limit=50${after ? `&after=${after}` : ""}`);
  return (
    <Section title="Offers" aside="prices in TGRID">
      <Shown of={offers} what="offers">{(page) => (
        <>
          <Table head={["provider", ...OFFER_HEAD]} rows={offerRows(page.items, true)} empty="No provider offers anything yet: tensorgrid provider --api URL adds one." />
          <nav class="pages" aria-label="newer and older">
            {after && <button onClick={() => setAfter(undefined)}>first</button>}
            {page.next && <button onClick={() => setAfter(page.next ?? undefined)}>more</button>}
          </nav>
        </>
      )}</Shown>
    </Section>
  );
}

export function ProviderDetail({ id }: { id: string }) {
  const provider = useLive<Provider>(`/v1/providers/${id}`);
  const jobs = useLive<JobPage>(`/v1/jobs?provider=${id}&limit=200`, 4_000);
  const open = useLive<Lease[] | { items: Lease[] }>(`/v1/providers/${id}/leases`, 2_000);
  const now = useNow();
  return (
    <Shown of={provider} what="provider">{(it) => {
      const leases = Array.isArray(open.value) ? open.value : (open.value?.items ?? []);
      const slots = it.offers.reduce((sum, offer) => sum + offer.terms.slots, 0);
      const busy = it.offers.reduce((sum, offer) => sum + offer.leases, 0);
      const suspended = it.reputation.suspended_until_ms - now;
      const net = (Number(it.reputation.earned) - Number(it.reputation.lost)).toFixed(9);
      return (
        <>
          <h1>Provider <code>{it.address}</code> <Copy text={it.address} what="the address" /></h1>
          {suspended > 0 && <p class="note bad">It is suspended for {span(suspended)}: it gets no jobs until then.</p>}
          <dl class="figures">
            <Figure name="Accepted" value={success(it.reputation)} note={`${count(it.reputation.rejected)} rejected, ${count(it.reputation.late)} late, ${count(it.reputation.abandoned)} abandoned`} />
            <Figure name="Load" value={slots === 0 ? "no offer" : <Meter value={busy} max={slots} label={`${busy} of ${slots} slots are taken`} />} note={it.offers.some((offer) => offer.offline) ? "silent: it gets no jobs until it is heard" : slots > 0 ? "slots taken" : ""} />
            <Figure name="Earned" value={<Tgrid of={it.reputation.earned} />} note="TGRID with accepted results" />
            <Figure name="Lost" value={<Tgrid of={it.reputation.lost} />} note={<>collateral; <Tgrid of={net} /> remain</>} />
            <Figure name="Balance" value={<Tgrid of={it.balance} />} note="TGRID, not locked" />
          </dl>
          <Work provider={it.address} jobs={jobs.value?.items ?? []} />
          <Section title="Works on" aside={count(leases.length)}>
            <Table head={["job", "state", "price", "must end"]} empty="Nothing at the moment." rows={leases.map((lease) => ({ key: lease.id, cells: [<Id of={lease.job} to="job" />, <State of={lease.state} />, <Tgrid of={lease.price} />, lease.finish_by_ms > now ? `in ${span(lease.finish_by_ms - now)}` : "now"] }))} />
          </Section>
          <Section title="Hardware and offers" aside="as it declares them; prices in TGRID"><Table head={OFFER_HEAD} rows={offerRows(it.offers, false)} empty="It offers nothing now." /></Section>
        </>
      );
    }}</Shown>
  );
}

/** What the end of a lease says of its provider. */
const ENDS: Partial<Record<NonNullable<Lease["end"]>, string>> = { fulfilled: "good", rejected: "bad", late: "bad", abandoned: "bad" };

/** What a provider did of its newest jobs: its results and what it was paid, oldest first. */
function Work({ provider, jobs }: { provider: string; jobs: Job[] }) {
  const done = jobs.flatMap((job) => job.leases).filter((lease) => lease.provider === provider && lease.end).reverse();
  if (done.length === 0) return <Section title="Results and earnings"><p class="note">It has finished no job yet.</p></Section>;
  let sum = 0;
  const earned = done.map((lease) => (sum += lease.end === "fulfilled" ? Number(lease.price) : 0));
  const time = (lease: Lease | undefined) => new Date(lease?.matched_ms ?? 0).toLocaleTimeString();
  const shown = done.slice(-120);
  return (
    <Section title="Results and earnings" aside={`of its newest ${count(jobs.length)} jobs`}>
      <div class="columns">
        <Series values={earned.slice(-60)} label="Earned, added up" unit="TGRID" from={time(done.at(-60) ?? done[0])} to={time(done.at(-1))} />
        <div>
          <p class="small">Results, oldest first: {count(done.filter((lease) => lease.end === "fulfilled").length)} accepted, {count(done.filter((lease) => ENDS[lease.end ?? "cancelled"] === "bad").length)} failed.</p>
          <ol class="results" aria-label="results, oldest first">
            {shown.map((lease) => (
              <li key={lease.id}><a class={ENDS[lease.end ?? "cancelled"] ?? "quiet"} href={`#/job/${lease.job}`} title={`${time(lease)}: ${lease.end_text ?? lease.end}`}><span class="unseen">{lease.end}</span></a></li>
            ))}
          </ol>
        </div>
      </div>
    </Section>
  );
}

export function Models() {
  const models = useLive<ModelPage>("/v1/models?limit=100");
  return (
    <Section title="Models" aside={models.value && `${count(models.value.total)} registered`}>
      <Shown of={models} what="models">{(page) => (
        <Table
          head={["name", "model", "state", "semantics", "work", "input", "output", "owner"]}
          empty="No model is registered: tensorgrid model add-builtin, or model add FILE."
          rows={page.items.map((model) => ({
            key: model.id,
            cells: [
              model.name,
              <Id of={model.id} to="model" />,
              model.refusal ? <span class="state bad" title={model.refusal}>refused</span> : model.state,
              model.facts?.tier ?? "",
              model.facts ? work(model.facts.macs) : "",
              model.facts ? bytes(model.facts.input_len) : "",
              model.facts ? bytes(model.facts.output_len) : "",
              <Id of={model.owner} />,
            ],
          }))}
        />
      )}</Shown>
    </Section>
  );
}

export function ModelDetail({ id }: { id: string }) {
  const model = useLive<Model>(`/v1/models/${id}`);
  return (
    <Shown of={model} what="model">{(it) => (
      <>
        <h1>{it.name}</h1>
        <Section title="Model">
          <Facts of={[
            ["id", <code>{it.id}</code>],
            ["state", it.refusal ?? it.state],
            ["owner", <Id of={it.owner} />],
            ["registered", new Date(it.registered_ms).toLocaleString()],
            ...(it.facts
              ? ([
                  ["semantics", it.facts.tier],
                  ["work of a run", work(it.facts.macs)],
                  ["input, output", `${bytes(it.facts.input_len)}, ${bytes(it.facts.output_len)}`],
                  ["can be proved", it.facts.provable ? "yes" : "no"],
                ] as [string, string][])
              : []),
            ["public part", <a href={`/v1/blobs/${it.public_blob}`} download={`${it.name}.tgv`}>download (.tgv)</a>],
          ]} />
        </Section>
        {it.state === "active" && <Quotes id={id} mode={it.facts?.provable ? "proof" : "recompute"} />}
      </>
    )}</Shown>
  );
}

function Quotes({ id, mode }: { id: string; mode: string }) {
  const quotes = useLive<QuotePage>(`/v1/models/${id}/quotes?mode=${mode}`);
  return (
    <Section title={`What a run would cost, verified by ${mode}`}>
      <Shown of={quotes} what="prices">{(page) => (
        <Table
          head={["provider", "hardware", "price", "verification", "takes about", "lacks"]}
          empty="No provider offers anything yet."
          rows={page.items.map((quote) => ({
            key: quote.offer.id,
            cells: [
              <><Id of={quote.offer.provider} to="provider" />{quote.chosen && <span class="state good"> next</span>}</>,
              quote.offer.terms.hardware,
              quote.price ? <Tgrid of={quote.price} /> : "",
              <Tgrid of={quote.verification_fee} />,
              span(quote.eta_ms),
              quote.lacks.join(", "),
            ],
          }))}
        />
      )}</Shown>
    </Section>
  );
}

export function Validators() {
  const seats = useLive<Seats>("/v1/seats");
  const status = useLive<Status>("/v1/status");
  return (
    <Shown of={seats} what="validators">{(it) => (
      <>
        <Section title="Validators" aside={`term ${it.term} since block ${count(it.since)}, next change at ${count(it.next_change)}`}>
          <Table
            head={["account", "key", "stake", "newest block", "reached at"]}
            empty="None."
            rows={it.validators.map((seat) => ({
              key: seat.key,
              cells: [
                <><Id of={seat.account} />{seat.leaving && <span class="state quiet"> leaving</span>}</>,
                <Id of={seat.key} />,
                <Tgrid of={seat.stake} />,
                <>{count(seat.last_block)}{status.value && <span class="small"> {count(Math.max(0, status.value.height - seat.last_block))} ago</span>}</>,
                seat.endpoint ?? "",
              ],
            }))}
          />
        </Section>
        <Section title="Asking for a seat" aside={<>bond <Tgrid of={it.bond} /> TGRID</>}>
          <Table head={["account", "key", "stake"]} empty="Nobody." rows={it.applicants.map((bond) => ({ key: bond.key, cells: [<Id of={bond.account} />, <Id of={bond.key} />, <Tgrid of={bond.stake} />] }))} />
        </Section>
      </>
    )}</Shown>
  );
}
