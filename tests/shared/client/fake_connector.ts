/** The local API of a connector with the platform `inbox`, as far as the client library uses it: in memory, without a socket. */
import { AgentDirectory } from "../../../shared/client/directory_store.ts";
import { localClient } from "../../../shared/client/connector_calls.ts";
import type { LocalClient } from "../../../shared/client/local_client.ts";
import type { LocalMessage, OutboundResult } from "../../../shared/client/local_shapes.ts";
import { localMessage } from "../../support/local_message.ts";
import { NOT_KEPT } from "../../support/not_kept.ts";
import type { ManualClock } from "../../support/manual_clock.ts";
import { countCalls } from "../../support/outside_work.ts";
import { tempFolder } from "../../support/temp_folder.ts";
import { CONNECTOR, didOf, systemOf } from "./library_bench.ts";

countCalls(AgentDirectory.prototype, ["connectorFile"]);

interface Call {
  method: string;
  path: string;
  query: URLSearchParams;
  // deno-lint-ignore no-explicit-any
  body: any;
}

/** Answers a call in place of the connector; `null`: the connector answers. */
type Tamper = (call: Call) => Response | Promise<Response> | null;

export class FakeConnector implements AsyncDisposable {
  readonly calls: Call[] = [];
  readonly inbox: LocalMessage[] = [];
  /** Messages that were sent: the bodies of the requests. */
  // deno-lint-ignore no-explicit-any
  readonly sent: any[] = [];
  /** State of the next sent message. */
  result: Partial<OutboundResult> = {};
  tamper: Tamper = () => null;
  isUp = true;
  #waiting: (() => void)[] = [];

  private constructor(readonly folder: AsyncDisposable & { path: string }, readonly local: LocalClient) {}

  static async open(): Promise<FakeConnector> {
    const folder = await tempFolder();
    await Deno.writeTextFile(`${folder.path}/connector.json`, JSON.stringify(CONNECTOR));
    const system = systemOf({
      fetch: (input, init) => connector.#fetch(String(input), init),
      isRunning: () => connector.isUp,
    });
    const local = localClient(system, await AgentDirectory.open(system, folder.path), new AbortController().signal);
    const connector: FakeConnector = new FakeConnector(folder, local);
    return connector;
  }

  get clock(): ManualClock {
    return this.local.deps.clock as ManualClock;
  }

  /** Stores a message, and answers the calls that wait for one. */
  receive(requestId: string, more: Partial<LocalMessage> = {}): LocalMessage {
    const message = localMessage(requestId, { id: this.inbox.length + 1, ...more });
    this.inbox.push(message);
    for (const wake of this.#waiting.splice(0)) wake();
    return message;
  }

  /** IDs of the unread messages. */
  get unread(): number[] {
    return this.inbox.filter(({ readAt }) => readAt === null).map(({ id }) => id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
  }

  async #fetch(input: string, init: RequestInit = {}): Promise<Response> {
    // As fetch does: the caller may have gone while it looked for the address.
    init.signal?.throwIfAborted();
    const { pathname: path, searchParams: query } = new URL(input);
    const call = { method: init.method ?? "GET", path, query, body: init.body ? JSON.parse(String(init.body)) : null };
    this.calls.push(call);
    return await this.tamper(call) ?? await this.#answer(call, init.signal ?? null);
  }

  async #answer({ path, query, body }: Call, signal: AbortSignal | null): Promise<Response> {
    if (path === "/v1/inbox/read") {
      const read = this.inbox.filter(({ id, readAt }) => body.ids.includes(id) && readAt === null);
      for (const message of read) message.readAt = "2026-02-21T00:00:01.000Z";
      return Response.json({ read: read.map(({ id }) => id) });
    }
    if (path === "/v1/inbox") {
      const after = Number(query.get("after")), except = query.get("except")?.split(",") ?? [];
      const found = () =>
        this.inbox.filter(({ id, readAt, from }) => readAt === null && id > after && !except.includes(from.agentDid))
          .slice(0, Number(query.get("limit")));
      if (found().length === 0 && query.get("wait") !== "0") await this.#next(Number(query.get("wait")), signal);
      return Response.json({ messages: found(), more: false });
    }
    if (path === "/v1/outbound") {
      this.sent.push(body);
      const question = this.inbox.find(({ id }) => id === body.replyTo);
      if (question) question.readAt = "2026-02-21T00:00:01.000Z";
      return this.#result(body.requestId ?? "made-here");
    }
    return this.#result(path.split("/").at(-1) ?? "");
  }

  #result(requestId: string): Response {
    const found = this.inbox.find(({ inReplyTo }) => inReplyTo === requestId) ?? null;
    return Response.json({
      requestId,
      to: didOf("B"),
      state: "delivered",
      problem: null,
      expiresAt: null,
      ...NOT_KEPT,
      stateAt: "2026-02-21T00:00:00.000Z",
      replies: found === null ? [] : [found.id],
      replyError: null,
      reply: found,
      ...this.result,
    });
  }

  /** Waits for a message, for the end of the wait, or for the caller to go. */
  #next(seconds: number, signal: AbortSignal | null): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.clock.after(seconds * 1000, resolve);
      signal?.addEventListener("abort", () => {
        cancel();
        reject(signal.reason);
      });
      this.#waiting.push(() => {
        cancel();
        resolve();
      });
    });
  }
}

/** A refusal of the connector. `retryAfter`: seconds to wait. */
export function refusal(status: number, code: string, retryAfter?: number): Response {
  const headers: Record<string, string> = retryAfter === undefined ? {} : { "Retry-After": `${retryAfter}` };
  return Response.json({ error: { code, message: code.toLowerCase() } }, { status, headers });
}
