// The dashboard of a gateway: what its node sees of the grid, as it happens.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Status } from "./api.ts";
import { Endpoints } from "./endpoints.tsx";
import { JobDetail, Jobs } from "./jobs.tsx";
import { listen, useConnected, useLive } from "./live.ts";
import { Overview } from "./overview.tsx";
import { Chat, Run } from "./run.tsx";
import { ModelDetail, Models, Offers, ProviderDetail, Validators } from "./supply.tsx";

const PAGES = [["", "Overview"], ["jobs", "Jobs"], ["endpoints", "Endpoints"], ["offers", "Offers"], ["models", "Models"], ["validators", "Validators"], ["run", "Run"], ["chat", "Chat"]] as const;

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
  const name = PAGES.find(([path]) => path === route)?.[1] ?? route;
  useEffect(() => {
    document.title = `${name} · TensorGrid`;
  }, [name]);
  return (
    <>
      <header class="top">
        <a class="brand" href="#/">TensorGrid</a>
        <nav aria-label="pages">{PAGES.map(([path, title]) => <a key={path} href={`#/${path}`} aria-current={path === route ? "page" : undefined}>{title}</a>)}</nav>
        <span class="network">{status.value && <>{status.value.network}{status.value.development && status.value.network !== "development" && <b title="The keys of its funded accounts follow from public names"> development</b>}</>} <span class={connected ? "dot on" : "dot"} /> <span role="status">{connected ? "live" : "not connected"}</span></span>
      </header>
      <main id="main" tabIndex={-1}>{PAGES.some(([path]) => path === route) && <h1 class="unseen">{name}</h1>}<Page route={route} id={id} /></main>
      <footer>What this gateway's node shows. <code>tensorgrid job show --genesis FILE</code> checks it against the chain; <a href="/openapi.json">API</a>, <a href="/metrics">metrics</a>.</footer>
    </>
  );
}

void listen();
const root = document.getElementById("app");
if (root) render(<App />, root);
