/** Calls the local API of a connector in the test's process, as a program with the token does. */
import type { A2aPeer } from "../../../../cli/connector/local_api/a2a_peers.ts";
import { localApi } from "../../../../cli/connector/local_api/local_api.ts";
import type { Bench } from "../bench.ts";

export const TOKEN = "token-of-the-local-api";
export const PORT = 19_400;
export const ORIGIN = `http://127.0.0.1:${PORT}`;

/** A request with all its headers: `Request` itself does not keep the Host header. */
export function localRequest(url: string | URL, init: RequestInit): Request {
  const request = new Request(url, init);
  Object.defineProperty(request, "headers", { value: new Headers(init.headers) });
  return request;
}

/** The answer of a call has been sent. */
export const SENT = { completed: Promise.resolve() };

export interface Asked {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Returns a function that calls the local API. `tickets` gets the tickets that it starts; `a2aPeers` have an A2A address. */
export function asker(bench: Bench, tickets: string[] = [], a2aPeers: readonly A2aPeer[] = []) {
  const answer = localApi({
    connector: bench.connector,
    token: TOKEN,
    port: PORT,
    onTicket: (t) => void tickets.push(t),
    a2aPeers: () => a2aPeers,
    page: null,
  });
  return async (path: string, { method = "GET", body, headers = {} }: Asked = {}) => {
    const all = { host: `127.0.0.1:${PORT}`, authorization: `Bearer ${TOKEN}`, ...headers };
    const sent = body === undefined ? null : typeof body === "string" ? body : JSON.stringify(body);
    const response = await answer(localRequest(ORIGIN + path, { method, body: sent, headers: all }), SENT);
    const text = await response.text();
    return { status: response.status, body: text === "" ? null : JSON.parse(text), text, headers: response.headers };
  };
}

export const post = (body: unknown): Asked => ({ method: "POST", body });
