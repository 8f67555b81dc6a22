// What is there to run jobs: offers, providers, models, validators.

import { useState } from "preact/hooks";
import type { Model, ModelPage, Offer, OfferPage, Provider, QuotePage, Seats, Status } from "./api.ts";
import { bytes, count, span, success, work } from "./format.ts";
import { useLive } from "./live.ts";
import { Facts, Id, Section, Shown, Table, Tgrid } from "./parts.tsx";

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
      bytes(offer.terms.memory_bytes),
      `${offer.leases} of ${offer.terms.slots}`,
      <Tgrid of={offer.terms.price_base} />,
      <Tgrid of={offer.terms.price_per_mmac} />,
      offer.terms.modes.join(", "),
      success(offer.reputation),
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
  return (
    <Shown of={provider} what="provider">{(it) => (
      <>
        <h1>Provider <code>{it.address}</code></h1>
        <Section title="Record">
          <Facts of={[
            ["results", success(it.reputation)],
            ["accepted", count(it.reputation.accepted)],
            ["rejected", count(it.reputation.rejected)],
            ["late", count(it.reputation.late)],
            ["abandoned", count(it.reputation.abandoned)],
            ["earned", <><Tgrid of={it.reputation.earned} /> TGRID</>],
            ["lost", <><Tgrid of={it.reputation.lost} /> TGRID</>],
            ["balance", <><Tgrid of={it.balance} /> TGRID</>],
            ...(it.reputation.suspended_until_ms > Date.now() ? [["suspended", `for ${span(it.reputation.suspended_until_ms - Date.now())}`] as [string, string]] : []),
          ]} />
        </Section>
        <Section title="Offers"><Table head={OFFER_HEAD} rows={offerRows(it.offers, false)} empty="It offers nothing now." /></Section>
      </>
    )}</Shown>
  );
}

export function Models() {
  const models = useLive<ModelPage>("/v1/models?limit=100");
  return (
    <Section title="Models" aside={models.value && `${count(models.value.total)} registered`}>
      <Shown of={models} what="models">{(page) => (
        <Table
          head={["name", "model", "state", "semantics", "work", "input", "output", "owner"]}
          empty="No model is registered: tensorgrid model add-builtin all, or model add FILE."
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
