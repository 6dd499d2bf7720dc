/** Alpha, its connector with A2A addresses for its peers beta and gamma, and clients of these addresses (D-135). */
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import { localApi } from "../../../../cli/connector/local_api/local_api.ts";
import { type A2aPeer, peerTokenHash } from "../../../../cli/connector/local_api/a2a_peers.ts";
import { World } from "../../../support/world.ts";
import { Bench, type BenchOptions, MANY } from "../bench.ts";
import { gate } from "../gate.ts";
import { localRequest, ORIGIN, PORT, SENT, TOKEN } from "./local_caller.ts";

export const BETA_TOKEN = "svc_a2a_beta", GAMMA_TOKEN = "svc_a2a_gamma";

/** Alpha with its connector, and its peers beta and gamma. */
export async function place(options: Partial<BenchOptions> = {}, isPaired = true) {
  const world = await World.open(MANY);
  const [alpha, beta, gamma] = [await world.agent(), await world.agent(), await world.agent()];
  if (isPaired) await world.pair(beta, alpha);
  await world.pair(gamma, alpha);
  const proxy = gate(world);
  const bench = await Bench.open(world, alpha, { platform: "inbox", fetch: proxy.fetch, ...options });
  const addedAt = "2026-01-01T00:00:00.000Z";
  const peers: A2aPeer[] = [
    { alias: "beta", did: beta.agent.did, tokenHash: peerTokenHash(BETA_TOKEN), addedAt },
    { alias: "gamma", did: gamma.agent.did, tokenHash: peerTokenHash(GAMMA_TOKEN), addedAt },
  ];
  const apiOf = ({ connector }: Bench) =>
    localApi({ connector, token: TOKEN, port: PORT, a2aPeers: () => peers, page: null });
  let answer = apiOf(bench), connection = SENT;
  const fetchLocal = (async (input: string | URL, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    headers.set("host", `127.0.0.1:${PORT}`);
    return await answer(localRequest(input, { ...init, headers }), connection);
  }) as typeof fetch;
  const rpc = async (method: string, params: unknown, more: Record<string, string> = {}, path = "/a2a/beta") => {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 7, method, params });
    return await post(body, more, path);
  };
  const post = async (body: BodyInit, more: Record<string, string> = {}, path = "/a2a/beta") => {
    const headers = { Authorization: `Bearer ${BETA_TOKEN}`, "Content-Type": "application/json", ...more };
    const response = await fetchLocal(ORIGIN + path, { method: "POST", body, headers });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: text === "" ? null : JSON.parse(text) };
  };
  return {
    world,
    bench,
    proxy,
    alpha,
    beta,
    gamma,
    peers,
    rpc,
    post,
    fetchLocal,
    /** Later calls are answered on such a connection. */
    answersOn: (next: typeof SENT) => void (connection = next),
    /** Beta comes online. */
    async online() {
      const socket = world.connect(beta);
      await world.connected();
      return socket;
    },
    /** A message, with the last line of the payload's text as its ID. */
    send: (text: string, more: object = {}, configuration: object = { returnImmediately: true }) =>
      rpc("SendMessage", { message: messageOf(text, more), configuration }),
    sent: () => bench.connector.store.sent.list({ limit: 200 }).messages,
    /** The next connector of alpha; the calls go to it. */
    async restart() {
      const next = await Bench.open(world, alpha, { platform: "generic", folder: bench.folder });
      answer = apiOf(next);
      return next;
    },
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

export function messageOf(text: string, more: object = {}) {
  return { messageId: `id of ${text}`, role: "ROLE_USER", parts: [{ text }], ...more };
}

/** A client of the SDK, from the card. */
export async function client(fetchImpl: typeof fetch) {
  const withToken = (async (input: string, init: RequestInit = {}) => {
    const headers = { ...init.headers as Record<string, string>, Authorization: `Bearer ${BETA_TOKEN}` };
    return await fetchImpl(input, { ...init, headers });
  }) as typeof fetch;
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory({ fetchImpl: withToken })],
    cardResolver: {
      resolve: async () => await (await fetchImpl(`${ORIGIN}/a2a/beta/.well-known/agent-card.json`)).json(),
    },
  }));
  return await factory.createFromUrl(`${ORIGIN}/a2a/beta`);
}
