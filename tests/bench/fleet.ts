/**
 * The agents of a load process and their sockets. For the floor the agents are invented; for the service they are
 * registered and paired over HTTP as by any client. Every private key stays in this process.
 */
import { reconnectWait } from "../../cli/link/reconnect.ts";
import { sha256, toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { type KeyPair, keyPairFromSeed, sign } from "../../shared/protocol/ed25519.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import { HEADERS, proofHeaders } from "../../shared/protocol/proof.ts";
import { registrationMessage } from "../../shared/protocol/registration.ts";
import { pause } from "./child.ts";
import { AGENTS_PER_KEY, type Jobs, type Pair } from "./jobs.ts";
import { SocketWire } from "./socket_wire.ts";

/** An agent with its keys and tokens. */
export interface FleetAgent {
  id: string;
  did: string;
  ait: string;
  aitJti: string;
  privateKey: CryptoKey;
  accessToken: string;
  refreshToken: string;
}

/** The members of a frame that an agent needs to acknowledge it. */
interface HeardFrame {
  type: string;
  id: string | number;
  requestId: string;
  fromAgentDid: string;
  payload: { message?: unknown };
}

/** Called for each message that arrives. */
export type Delivered = (frame: HeardFrame, recipient: FleetAgent) => void;

const CONNECT_TARGET = "/v1/relay/connect";
const AT_ONCE = 16;
/** A text with about the length of an identity token. */
const INVENTED_AIT = "a".repeat(640);

const bytes = (n: number) => crypto.getRandomValues(new Uint8Array(n));
export const newId = ulidSource(() => Date.now(), bytes);

/** Runs `work` for every item, with at most `atOnce` calls in progress. */
export async function forEach<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let item = items[next++]; item !== undefined; item = items[next++]) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
}

/** Returns the headers of a signed request. The last one gives the floor what the service reads from the token. */
export async function provenHeaders(
  agent: FleetAgent,
  request: { method: string; url: string; target: string; body?: string; recipient?: string },
): Promise<Record<string, string>> {
  const { method, url, target, body, recipient } = request;
  const unsigned = {
    method,
    origin: new URL(url).origin,
    target,
    ...(body === undefined ? {} : { body: utf8Bytes(body) }),
    ...(recipient === undefined ? {} : { recipient }),
  };
  const headers = await proofHeaders(unsigned, agent, Math.floor(Date.now() / 1000), toBase64Url(bytes(18)));
  return {
    ...headers,
    [HEADERS.access]: agent.accessToken,
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    "X-Bench-Agent": agent.did,
  };
}

export class Fleet {
  readonly agents: FleetAgent[] = [];
  readonly #sockets: SocketWire[] = [];
  readonly #stalled: SocketWire[] = [];
  /** When a kept socket opened again, milliseconds since the Unix epoch. */
  readonly returns: number[] = [];
  /** Attempts of kept sockets that failed. */
  failures = 0;
  /** Called for each message that arrives. */
  onDelivered: Delivered = () => {};

  agent(index: number): FleetAgent {
    const agent = this.agents[index];
    if (!agent) throw new Error(`There is no agent ${index}`);
    return agent;
  }

  async invent(count: number): Promise<Jobs["invent"]["answer"]> {
    const { privateKey, publicKey } = await keyPairFromSeed(bytes(32));
    for (let i = 0; i < count; i++) {
      const id = newId();
      const did = `did:svc:127.0.0.1%3A8787:agent:${id}`;
      const accessToken = "t".repeat(51);
      this.agents.push({ id, did, ait: INVENTED_AIT, aitJti: newId(), privateKey, accessToken, refreshToken: "" });
    }
    return { publicKey, aitSha256: await sha256(INVENTED_AIT) };
  }

  /** Registers agents. Returns their IDs. */
  async register(registryUrl: string, apiKeys: readonly string[], count: number): Promise<string[]> {
    const turns = Array.from({ length: count }, (_, i) => ({ apiKey: apiKeys[Math.floor(i / AGENTS_PER_KEY)] ?? "" }));
    const ids: string[] = [];
    await forEach(turns, AT_ONCE, async ({ apiKey }) => {
      const agent = await registered(registryUrl, apiKey);
      this.agents.push(agent);
      ids.push(agent.id);
    });
    return ids;
  }

  async pair(proxyUrl: string, pairs: readonly Pair[]): Promise<void> {
    const profile = { agentName: "bench", humanName: "Bench" };
    await forEach(pairs, AT_ONCE, async ([sender, recipient]) => {
      const started = await this.#signedPost(sender, proxyUrl, "/pair/start", { initiatorProfile: profile });
      const { ticket } = started as { ticket: string };
      await this.#signedPost(recipient, proxyUrl, "/pair/confirm", { ticket, responderProfile: profile });
    });
  }

  async connect(proxyUrl: string, agents: readonly number[], stalled: boolean): Promise<void> {
    await forEach(agents, AT_ONCE, async (index) => {
      const socket = await this.#open(proxyUrl, this.agent(index), stalled);
      (stalled ? this.#stalled : this.#sockets).push(socket);
    });
  }

  /** Opens a socket for each agent at the addresses in turn, and again after each end. Returns when all are open. */
  async keep(proxyUrls: readonly string[], agents: readonly number[]): Promise<void> {
    const turns = agents.map((index, turn) => ({ agent: this.agent(index), turn }));
    await forEach(turns, AT_ONCE, ({ agent, turn }) =>
      new Promise((opened) => {
        void this.#keep(proxyUrls, agent, turn, opened);
      }));
  }

  /** Runs until the process ends. After a failure the next attempt goes to any other instance, as of a load balancer. */
  async #keep(proxyUrls: readonly string[], agent: FleetAgent, turn: number, opened: () => void): Promise<never> {
    let tries = 0;
    for (let isFirst = true;;) {
      try {
        const socket = await this.#open(proxyUrls[turn % proxyUrls.length] ?? "", agent, true);
        tries = 0;
        if (isFirst) opened();
        else this.returns.push(Date.now());
        isFirst = false;
        await socket.resume();
      } catch {
        this.failures++;
        turn += 1 + Math.floor(Math.random() * (proxyUrls.length - 1));
      }
      await pause(reconnectWait(tries++, Math.random()));
    }
  }

  async #open(proxyUrl: string, agent: FleetAgent, stalled: boolean): Promise<SocketWire> {
    const headers = await provenHeaders(agent, { method: "GET", url: proxyUrl, target: CONNECT_TARGET });
    const heard = (text: string, socket: SocketWire) => this.#heard(agent, text, socket);
    return await SocketWire.open(proxyUrl, CONNECT_TARGET, headers, heard, stalled);
  }

  /** Lets stalled sockets read until they are closed, or for `waitMs`. Returns the number of sockets by close code. */
  async resume(waitMs: number): Promise<Record<string, number>> {
    const read = Promise.all(this.#stalled.map((socket) => socket.resume()));
    await Promise.race([read, new Promise((resolve) => setTimeout(resolve, waitMs))]);
    const closed: Record<string, number> = {};
    for (const { closeCode } of [...this.#sockets, ...this.#stalled]) {
      if (closeCode !== null) closed[closeCode] = (closed[closeCode] ?? 0) + 1;
    }
    return closed;
  }

  #heard(agent: FleetAgent, text: string, socket: SocketWire): void {
    const frame = JSON.parse(text) as HeardFrame;
    if (frame.type !== "deliver" && frame.type !== "heartbeat") return;
    const head = { v: 1, id: newId(), ts: new Date().toISOString(), ackId: frame.id };
    if (frame.type === "heartbeat") return socket.send(JSON.stringify({ ...head, type: "heartbeat_ack" }));
    this.onDelivered(frame, agent);
    socket.send(JSON.stringify({ ...head, type: "deliver_ack", accepted: true }));
  }

  async #signedPost(index: number, url: string, target: string, value: unknown): Promise<unknown> {
    const body = JSON.stringify(value);
    return await post(
      url + target,
      await provenHeaders(this.agent(index), { method: "POST", url, target, body }),
      body,
    );
  }
}

async function registered(registryUrl: string, apiKey: string): Promise<FleetAgent> {
  const keys: KeyPair = await keyPairFromSeed(bytes(32));
  const { publicKey, privateKey } = keys;
  const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
  const challenged = await post(`${registryUrl}/v1/agents/challenge`, headers, JSON.stringify({ publicKey }));
  const { challengeId, nonce, ownerDid } = challenged as { challengeId: string; nonce: string; ownerDid: string };
  const name = "bench";
  const message = registrationMessage({ challengeId, nonce, ownerDid, publicKey, name });
  const challengeSignature = await sign(privateKey, utf8Bytes(message));
  const body = JSON.stringify({ name, publicKey, challengeId, challengeSignature });
  const { agent, ait, agentAuth } = await post(`${registryUrl}/v1/agents`, headers, body) as {
    agent: { id: string; did: string; currentJti: string };
    ait: string;
    agentAuth: { accessToken: string; refreshToken: string };
  };
  const { accessToken, refreshToken } = agentAuth;
  return { id: agent.id, did: agent.did, ait, aitJti: agent.currentJti, privateKey, accessToken, refreshToken };
}

/** Posts JSON. Returns the response body; throws when the status is not 2xx. */
export async function post(url: string, headers: Record<string, string>, body: string): Promise<unknown> {
  const response = await fetch(url, { method: "POST", headers, body });
  const text = await response.text();
  if (!response.ok) throw new Error(`POST ${url} was answered with ${response.status}: ${text}`);
  return JSON.parse(text);
}
