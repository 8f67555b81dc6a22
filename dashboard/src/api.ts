// The grid's HTTP API; types are generated from its OpenAPI document.

import type { components } from "./schema.d.ts";

type Schemas = components["schemas"];
export type Status = Schemas["StatusDto"];
export type Job = Schemas["JobDto"];
export type JobState = Schemas["JobStateDto"];
export type JobPage = Schemas["JobPageDto"];
export type JobWhy = Schemas["JobWhyDto"];
export type JobReceipt = Schemas["JobReceiptDto"];
export type Lease = Schemas["LeaseDto"];
export type Offer = Schemas["OfferDto"];
export type OfferPage = Schemas["OfferPageDto"];
export type Model = Schemas["ModelDto"];
export type ModelPage = Schemas["ModelPageDto"];
export type Provider = Schemas["ProviderDto"];
export type QuotePage = Schemas["QuotePageDto"];
export type Seats = Schemas["SeatsDto"];
export type GridEvent = Schemas["EventDto"];
export type JobEvents = Schemas["JobEventsDto"];
export type Inference = Schemas["InferenceDto"];
export type Mode = Schemas["ModeDto"];
export type ModePrice = Schemas["ModePriceDto"];
export type Machine = Schemas["MachineDto"];
export type CloudPrices = Schemas["CloudPricesDto"];
export type CloudPrice = Schemas["CloudPriceDto"];

/** A refusal, in the API's words. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly hint: string,
  ) {
    super(message);
  }
}

async function answer<T>(response: Response): Promise<T> {
  if (response.ok) return (await response.json()) as T;
  let message = `the gateway answered ${response.status}`;
  let hint = "";
  try {
    const body = (await response.json()) as { message?: string; hint?: string; error?: { message?: string } };
    message = body.message ?? body.error?.message ?? message;
    hint = body.hint ?? "";
  } catch {
    // Not JSON: the status says it.
  }
  throw new Refusal(message, response.status, hint);
}

/** Asks for something; the promise fails with a Refusal, or with what fetch fails with if nobody answers. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return answer<T>(await fetch(path, signal ? { signal } : {}));
}

/** Sends JSON. */
export async function post<T>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<T> {
  const sent = { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } };
  return answer<T>(await fetch(path, sent));
}
