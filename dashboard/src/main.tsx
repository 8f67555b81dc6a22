// The dashboard of a node: what it sees of the grid, as it happens.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Status } from "./api.ts";
import { BlockDetail, Blocks, TransactionDetail } from "./blocks.tsx";
import { Endpoints } from "./endpoints.tsx";
import { JobDetail, Jobs } from "./jobs.tsx";
import { listen, useConnected, useLive } from "./live.ts";
import { Overview } from "./overview.tsx";
import { Chat, Run } from "./run.tsx";
import { VerifyFiles } from "./verify.tsx";
import { ModelDetail, Models, Offers, ProviderDetail, Validators } from "./supply.tsx";

const PAGES = [["", "Overview"], ["run", "Order"], ["chat", "Chat"], ["jobs", "Jobs"], ["blocks", "Blocks"], ["offers", "Offers"], ["models", "Models"], ["endpoints", "Endpoints"], ["validators", "Validators"], ["verify", "Verify"]] as const;

/** The page of the list to which a page of one thing belongs. */
const PARENTS: Record<string, string> = { job: "jobs", block: "blocks", tx: "blocks", provider: "offers", model: "models" };
const TITLES: Record<string, string> = { job: "Job", block: "Block", tx: "Transaction", provider: "Provider", model: "Model" };

function Page({ route, id }: { route: string; id: string }) {
  switch (route) {
    case "": return <Overview />;
    case "jobs": return <Jobs />;
    case "job": return <JobDetail key={id} id={id} />;
    case "endpoints": return <Endpoints />;
    case "offers": return <Offers />;
    case "provider": return <ProviderDetail key={id} id={id} />;
    case "models": return <Models />;
    case "model": return <ModelDetail key={id} id={id} />;
    case "blocks": return <Blocks />;
    case "block": return <BlockDetail key={id} id={id} />;
    case "tx": return <TransactionDetail key={id} id={id} />;
    case "verify": return <VerifyFiles />;
    case "validators": return <Validators />;
    case "run": return <Run />;
    case "chat": return <Chat />;
    default: return <p class="note">There is no such page. <a href="#/">Overview</a></p>;
  }
}

function place(): [string, string] {
  const [route = "", id = ""] = location.hash.replace(/^#\/?/, "").split("/");
  return [route, encodeURIComponent(id)];
}

function App() {
  const [[route, id], setPlace] = useState(place);
  const connected = useConnected();
  const status = useLive<Status>("/v1/status");
  useEffect(() => {
    const move = () => {
      setPlace(place());
      document.getElementById("main")?.focus();
      scrollTo(0, 0);
    };
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  const name = PAGES.find(([path]) => path === route)?.[1] ?? TITLES[route] ?? route;
  const current = PARENTS[route] ?? route;
  useEffect(() => {
    document.title = `${name} · TensorGrid`;
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [name]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>skip to the page</a>
      <header class="top">
        <a class="brand" href="#/">TensorGrid</a>
        <nav aria-label="pages">{PAGES.map(([path, title]) => <a key={path} href={`#/${path}`} aria-current={path === current ? (path === route ? "page" : "true") : undefined}>{title}</a>)}</nav>
        <span class="network">{status.value && <>{status.value.network}{status.value.development && status.value.network !== "development" && <b title="The keys of its funded accounts follow from public names"> development</b>}</>} <span class={connected ? "dot on" : "dot"} aria-hidden="true" /> <span role="status">{connected ? "live" : "not connected"}</span></span>
      </header>
      <main id="main" tabIndex={-1}>{PAGES.some(([path]) => path === route) && <h1 class="unseen">{name}</h1>}<Page route={route} id={id} /></main>
      <footer>What this node shows, on a page that came from it. <code>tensorgrid job show --genesis FILE</code> checks a job against the chain, without trust in the node. <a href="/openapi.json">API</a> · <a href="/metrics">metrics</a></footer>
    </>
  );
}

void listen();
const root = document.getElementById("app");
if (root) render(<App />, root);
