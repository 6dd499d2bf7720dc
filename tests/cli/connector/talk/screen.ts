/** A terminal on which `connector start` runs, and the local API behind it. */
import type { ConsoleView } from "../../../../cli/connector/talk/view.ts";
import type { Peers } from "../../../../cli/connector/peers/peers.ts";
import type { Status } from "../../../../cli/connector/status.ts";
import { Talk } from "../../../../cli/connector/talk/talk.ts";
import type { TalkAgent } from "../../../../cli/connector/talk/talk_agent.ts";
import { type Line, painted } from "../../../../cli/terminal/escapes.ts";
import { formatTicket } from "../../../../shared/protocol/ticket.ts";
import { NOT_KEPT } from "../../../support/not_kept.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";

const SERVER = "https://svc.example.com";
export const TICKET = formatTicket(SERVER, new Uint8Array(16));
export const DID = "did:svc:registry.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
export const OTHER = "did:svc:registry.example:agent:01KHYQ5H00BBBBBBBBBBBBBBBB";
export const BETA: Peers = { beta: { did: DID, agentName: "beta", humanName: "Bob" } };
export const PAGE = `http://127.0.0.1:41234/page/open?code=${"c".repeat(80)}`;
export const ENTER = "\r", ESCAPE = "\x1b";

interface Asked {
  agent: string;
  method: string;
  target: string;
  body: Record<string, unknown>;
}

/** A terminal with one or more agents, whose local API the test plays. */
export class Screen {
  readonly clock: ManualClock;
  mayInvite = true;
  /** The line below the log cannot be drawn. */
  isBroken = false;
  readonly lines: string[] = [];
  readonly asked: Asked[] = [];
  peers: Peers = BETA;
  stops = 0;
  unread = 0;
  sentState = "processed";
  ticketStatus = "pending";
  /** Whether a kept message waits behind no other. */
  isFirst = true;
  problem: string | null = null;
  /** Rows of `GET /v1/sent`. */
  readonly sent: Record<string, unknown>[] = [];
  /** Rows of `GET /v1/peers`. */
  listed: Record<string, unknown>[] = [];
  /** Unread messages, oldest first. */
  inbox: unknown[] = [];
  /** Rows of `GET /v1/log`. */
  written: Record<string, unknown>[] = [];
  /** Whether the connector does not answer. */
  isSilent = false;
  /** Calls that wait for a test, by target. */
  readonly slow = new Map<string, Promise<void>>();
  readonly #arriving = new Map<string, (messages: unknown[]) => void>();
  readonly talk: Talk;
  withHere: (text: string) => string = (text) => text;
  #seq = 8;

  /** @param names agents that are there from the start; the test adds others */
  constructor(readonly columns = 80, names: readonly string[] = ["alpha"], hasKeys = true) {
    this.clock = new ManualClock(new Date(2026, 1, 21, 7, 57).getTime());
    const view: ConsoleView = {
      event: () => {},
      show: (lines) => this.print(lines),
      redraw: () => {
        if (this.isBroken) throw new Error("the store is locked");
      },
      signal: () => {},
      isVerbose: false,
      columns,
      rows: 24,
      stop: () => {},
    };
    this.talk = new Talk({
      clock: this.clock,
      view,
      newId: () => `request-${++this.#seq}`,
      agents: Math.max(1, names.length),
      hasKeys,
      withHere: (text) => this.withHere(text),
      arrived: () => {},
      stop: () => void this.stops++,
    });
    for (const name of names) this.add(name);
  }

  print(lines: readonly Line[]): void {
    this.lines.push(...lines.map((line) => painted(line, false)));
  }

  add(name = "alpha"): void {
    const agent: TalkAgent = {
      name,
      humanName: "Ada",
      peers: () => this.peers,
      status: () => this.status(name),
      openPage: () => Promise.resolve([PAGE]),
      invite: () => Promise.resolve(this.mayInvite ? "svc join 'https://x.test/join#svc_inv_x.a.b' --start" : null),
      calls: {
        agentName: name,
        send: async ({ method, target, body }) => {
          this.asked.push({ agent: name, method, target, body: body === undefined ? {} : JSON.parse(body) });
          await this.slow.get(target);
          const answer = await this.#answer(name, target, body === undefined ? {} : JSON.parse(body));
          return { status: 200, headers: new Headers(), text: JSON.stringify(answer) };
        },
      },
    };
    this.talk.add(agent);
  }

  status(name: string): Status | null {
    if (this.isSilent) return null;
    const connection = { state: "connected", nextTryAt: null };
    const runtime = { url: null, reachable: true };
    const inbox = { waiting: this.unread };
    return { agent: { name }, proxy: { origin: SERVER }, connection, runtime, inbox, deadLetters: 0 } as never;
  }

  #answer(name: string, target: string, body: Record<string, unknown>): unknown {
    if (target.includes("newest=true")) {
      const limit = Number(new URL(target, SERVER).searchParams.get("limit"));
      return { messages: this.inbox.slice(-limit), more: this.inbox.length > limit };
    }
    if (target.startsWith("/v1/inbox?")) {
      return new Promise((resolve) => this.#arriving.set(name, (messages) => resolve({ messages, more: false })));
    }
    if (target === "/v1/peers") return { peers: this.listed };
    if (target.startsWith("/v1/peers/")) {
      const peer = this.listed.find(({ agentDid }) => agentDid === body.peer) ?? listedPeer("beta", OTHER);
      return { ...peer, ...body.alias === undefined ? {} : { alias: body.alias } };
    }
    if (target === "/v1/pair/status" || target === "/v1/pair/start") {
      const profile = { agentName: "alpha", humanName: "Ada" }, expiresAt = new Date(this.clock.now() + 300_000);
      const answer = { initiatorAgentDid: OTHER, initiatorProfile: profile, expiresAt: expiresAt.toISOString() };
      return { ...answer, status: this.ticketStatus, ticket: TICKET };
    }
    if (target === "/v1/pair/remove") return { removed: true };
    if (target.startsWith("/v1/log")) return { messages: this.written, next: null };
    if (target === "/v1/inbox/read") return { read: body.ids };
    if (target.startsWith("/v1/inbox/")) return this.message({ id: Number(target.split("/").at(-1)), text: "old" });
    if (target.startsWith("/v1/sent")) return { messages: this.sent, more: false };
    if (target === "/v1/pair/confirm") {
      const profile = { agentName: "beta", humanName: "Bob" };
      const [initiatorAgentDid, responderAgentDid] = [DID, OTHER];
      return {
        paired: true,
        initiatorAgentDid,
        responderAgentDid,
        initiatorProfile: profile,
        responderProfile: profile,
      };
    }
    if (target.startsWith("/v1/outbound")) {
      const nextTryAt = this.sentState === "kept" && this.isFirst
        ? new Date(this.clock.now() + 12_000).toISOString()
        : null;
      const { sentState: state, problem } = this;
      const row = this.row({ requestId: body.requestId, state, problem, nextTryAt, seq: this.#seq });
      this.sent.unshift(row);
      return { ...row, to: DID, reply: null };
    }
    throw new Error(target);
  }

  /** A message to beta. */
  row(fields: Record<string, unknown>): Record<string, unknown> {
    const sentAt = new Date(this.clock.now()).toISOString();
    return {
      to: { agentDid: DID, alias: "beta" },
      ...NOT_KEPT,
      text: null,
      conversationId: null,
      inReplyTo: null,
      auto: false,
      origin: "person",
      bytes: 1,
      expiresAt: null,
      problem: null,
      payload: null,
      replies: [],
      replyError: null,
      sentAt,
      stateAt: sentAt,
      ...fields,
    };
  }

  /** A message of a peer arrives. */
  async arrive(fields: Record<string, unknown>, agent = "alpha"): Promise<void> {
    await this.answerInbox([this.message(fields)], agent);
  }

  /** Answers the call that waits for messages. */
  async answerInbox(messages: unknown[], agent = "alpha"): Promise<void> {
    await flushTasks();
    this.#arriving.get(agent)?.(messages);
    await flushTasks();
  }

  /** A message of beta. */
  message(fields: Record<string, unknown>): Record<string, unknown> {
    const receivedAt = new Date(this.clock.now()).toISOString();
    const from = {
      agentDid: DID,
      ownerDid: "did:svc:registry.example:human:x",
      name: "beta",
      alias: "beta",
      humanName: "Bob",
    };
    const rest = {
      conversationId: null,
      inReplyTo: null,
      isReply: false,
      auto: false,
      readAt: null,
      mayBeRepeat: false,
    };
    const message = {
      requestId: "request-x",
      from,
      verified: "end-to-end",
      ...rest,
      receivedAt,
      error: null,
      payload: null,
    };
    return { ...message, ...fields };
  }

  /** Presses keys one by one. */
  async press(...keys: string[]): Promise<void> {
    for (const key of keys) {
      this.talk.receive(new TextEncoder().encode(key));
      if (key === ESCAPE) await this.clock.advance(50);
      await flushTasks();
    }
  }

  async paste(text: string, waitMs = 500): Promise<void> {
    await this.press(`\x1b[200~${text}\x1b[201~`);
    await this.clock.advance(waitMs);
  }

  live(): string {
    return this.talk.live(this.columns - 1)?.lines.map((line) => painted(line, false)).join("\n") ?? "";
  }

  requests(target: string): Record<string, unknown>[] {
    return this.asked.filter((asked) => asked.target.startsWith(target)).map(({ body }) => body);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.talk.close();
    await this.arrive({});
    await flushTasks();
  }
}

/** A row of `GET /v1/peers`. */
export function listedPeer(
  alias: string,
  agentDid: string,
  fields: Record<string, unknown> = {},
): Record<string, unknown> {
  const [pairedAt, key, how, since] = ["2026-02-21T07:00:00.000Z", null, null, null];
  const names = { alias, agentDid, agentName: alias, humanName: alias === "beta" ? "Bob" : "Ci Wang" };
  const presence = { online: true, lastSeenAt: null, lastMessageAt: null };
  return { ...names, blocked: false, pairedAt, key, how, since, ...presence, ...fields };
}
