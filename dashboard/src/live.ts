// What a page shows, kept as it is in the grid: asked again when a block changed something.

import { useEffect, useState } from "preact/hooks";
import { get, Refusal, type GridEvent } from "./api.ts";

export type Loaded<T> = { value?: T; error?: string; missing?: boolean };

type Listener = (event: GridEvent | undefined) => void;
const listeners = new Set<Listener>();
const connection = { open: false, watchers: new Set<(open: boolean) => void>() };

function connected(open: boolean) {
  connection.open = open;
  for (const watcher of connection.watchers) watcher(open);
}

// The id of the last event that came, after which a stream goes on.
let last: string | undefined;

/** Listens to the grid's events for as long as the page is open; connects again one second after a stream ends, and goes on where it ended. */
export async function listen() {
  for (;;) {
    try {
      const response = await fetch("/v1/events", last === undefined ? {} : { headers: { "last-event-id": last } });
      if (response.ok && response.body) {
        connected(true);
        for (const listener of listeners) listener(undefined);
        await read(response.body);
      }
    } catch {
      // Nobody answers, or the stream broke: the page says that it is not connected.
    }
    connected(false);
    await new Promise((later) => setTimeout(later, 1_000));
  }
}

/** Reads server-sent events until the stream ends. Their data count, each one event as JSON, and their ids once they are complete. */
async function read(body: ReadableStream<Uint8Array>) {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  let id: string | undefined;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") last = id ?? last;
      if (line.startsWith("id:")) id = line.slice(3).trim();
      if (!line.startsWith("data:")) continue;
      const event = JSON.parse(line.slice(5)) as GridEvent;
      events = [event, ...events].slice(0, EVENTS_MAX);
      for (const listener of listeners) listener(event);
    }
  }
}

/** Whether events come. */
export function useConnected(): boolean {
  const [open, setOpen] = useState(connection.open);
  useEffect(() => {
    connection.watchers.add(setOpen);
    setOpen(connection.open);
    return () => void connection.watchers.delete(setOpen);
  }, []);
  return open;
}

// What came since the page was opened, newest first: it outlives the pages that show it.
let events: GridEvent[] = [];
const EVENTS_MAX = 400;

/** The events since the page was opened, newest first, at most 400. */
export function useEvents(): GridEvent[] {
  const [all, setAll] = useState(events);
  useEffect(() => {
    const listener: Listener = () => setAll(events);
    listener(undefined);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return all;
}

/** The time, once a second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** An answer of the API: asked again at most every `pause` ms while the grid changes, and every `every` ms at least. */
export function useLive<T>(path: string, pause = 500, every = Math.max(5_000, pause)): Loaded<T> {
  const [loaded, setLoaded] = useState<Loaded<T>>({});
  useEffect(() => {
    const abort = new AbortController();
    let due: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      due = undefined;
      try {
        const value = await get<T>(path, abort.signal);
        setLoaded({ value });
      } catch (error) {
        if (abort.signal.aborted) return;
        const missing = error instanceof Refusal && error.status === 404;
        // What was shown stays, with the error beside it.
        setLoaded((before) => ({ ...before, missing, error: error instanceof Refusal ? error.message : "the gateway does not answer" }));
      }
    };
    const soon = () => {
      due ??= setTimeout(ask, pause);
    };
    setLoaded({});
    void ask();
    listeners.add(soon);
    const timer = setInterval(soon, every);
    return () => {
      abort.abort();
      listeners.delete(soon);
      clearInterval(timer);
      clearTimeout(due);
    };
  }, [path, pause, every]);
  return loaded;
}
