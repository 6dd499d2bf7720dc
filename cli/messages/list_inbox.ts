/**
 * Lists stored messages for `svc inbox`: prints them, and marks exactly those read that were printed, after they were
 * printed.
 */
import { sleep } from "../../shared/clock.ts";
import { LocalMessage } from "../../shared/client/local_shapes.ts";
import { callForText, get, type LocalCalls, readMessages } from "../../shared/client/local_client.ts";
import { chosenAgent } from "../agents/agent_reference.ts";
import { access, connectorOf } from "../connector/attach.ts";
import { programOf, runForMessages } from "../connector/exec.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { findPeerEver, readPeers } from "../connector/peers.ts";
import { statusOf } from "../connector/status.ts";
import type { ScreenOptions } from "../connector/talk/screen.ts";
import type { Context } from "../context.ts";
import { messageLines, readPage, type Received, type ReceivedPage } from "./received.ts";

export interface InboxQuery extends ScreenOptions {
  agent: string | undefined;
  /** Alias or DID of a peer. */
  from: string | undefined;
  conversation: string | undefined;
  limit: number;
  /** Messages that are read, in place of unread ones. */
  read: boolean;
  follow: boolean;
  take: boolean;
  allowInsecure: boolean;
  /** Absolute path of a program to run when messages arrive. */
  exec: string | undefined;
  /** Only some messages are wanted, which the view does not do. */
  hasFilter: boolean;
  /** Registers a function that ends `follow`. Returns a function that removes it. */
  onStop(stop: () => void, discard?: () => boolean): () => void;
}

/** Prints messages of the inbox. @throws as `access` and `call` */
export async function listInbox(ctx: Context, query: InboxQuery): Promise<void> {
  const { folder } = await chosenAgent(ctx, query.agent);
  const program = await programOf(ctx, query.exec);
  if (query.follow && !query.take && !query.hasFilter && ctx.out.columns !== null && !ctx.out.json) {
    const running = await connectorOf(ctx, folder);
    // Messages that go to a runtime are not in the view.
    if (running !== null && (await statusOf(running)).runtime.url === null) {
      const { attachScreen } = await import("../connector/talk/screen.ts");
      return await attachScreen(ctx, folder, running, { ...query, program }, query.onStop);
    }
  }
  const stopped = Promise.withResolvers<null>();
  const ended = new AbortController();
  let isStopped = false;
  const forget = !query.follow ? () => {} : query.onStop(() => {
    isStopped = true;
    stopped.resolve(null);
  });
  try {
    await using connector = await access(ctx, folder, { "allow-insecure": query.allowInsecure });
    if (connector.isHost) {
      ctx.out.doing("Waiting for queued messages");
      await Promise.race([sleep(ctx.clock, LIMIT.queuedWaitMs), stopped.promise]);
    }
    const from = query.from === undefined ? null : findPeerEver(readPeers(folder), query.from) ?? query.from;
    const lister = new Lister(ctx, connector, { ...query, from: from ?? undefined });
    if (!query.follow) return await lister.list();
    const warn = (why: string) => ctx.out.warn(why);
    if (program !== null) void runForMessages(ctx, connector, program, warn, ended.signal);
    while (!isStopped) {
      const page = await Promise.race([lister.next(LIMIT.waitMaxMs / 1000), stopped.promise]);
      if (page === null || !await lister.print(page.messages)) return;
      await sleep(ctx.clock, LIMIT.waitPauseMs);
    }
  } finally {
    ended.abort();
    forget();
  }
}

/** Prints one message whole; with `take` it is read then. @throws as `access` and `call` */
export async function showMessage(
  ctx: Context,
  id: number,
  { agent, take, allowInsecure }: Pick<InboxQuery, "agent" | "take" | "allowInsecure">,
): Promise<void> {
  const { folder } = await chosenAgent(ctx, agent);
  await using connector = await access(ctx, folder, { "allow-insecure": allowInsecure });
  const { body: message, json } = await callForText(connector, LocalMessage, get(`/v1/inbox/${id}`));
  const isPrinted = ctx.out.json
    ? ctx.out.jsonLine(json)
    : ctx.out.peerLines(messageLines({ message, json }, ctx.out.columns, ctx.clock.now()));
  if (take && isPrinted && message.readAt === null) await readMessages(connector, { ids: [id] });
}

class Lister {
  #after: number | null = null;

  constructor(
    readonly ctx: Context,
    readonly connector: LocalCalls,
    readonly query: InboxQuery,
  ) {}

  /** Prints up to `limit` messages. */
  async list(): Promise<void> {
    const { ctx, query: { limit, read } } = this;
    const found: Received[] = [];
    let more = true;
    while (more && found.length < limit) {
      const before = this.#after;
      const page = await this.next(0);
      found.push(...page.messages);
      more = page.more && this.#after !== before;
    }
    const shown = found.slice(0, limit);
    more ||= shown.length < found.length;
    if (ctx.out.json) {
      const json = `{"messages":[${shown.map(({ json }) => json).join(",")}],"more":${more}}`;
      if (ctx.out.jsonLine(json)) await this.#take(shown);
      return;
    }
    if (shown.length === 0) ctx.out.note(read ? "No read messages." : "No unread messages.");
    if (await this.print(shown) && more) ctx.out.note("There are more messages; --limit shows more of them.");
  }

  /** The next messages that match, at most a page; waits up to `wait` seconds for the first one. */
  async next(wait: number): Promise<ReceivedPage> {
    const { from, conversation, limit, read } = this.query;
    const query = new URLSearchParams({ unread: String(!read), limit: String(limit), wait: String(wait) });
    if (from !== undefined) query.set("from", from);
    if (conversation !== undefined) query.set("conversation", conversation);
    if (this.#after !== null) query.set("after", String(this.#after));
    const page = await readPage(this.connector, query);
    this.#after = page.messages.at(-1)?.message.id ?? this.#after;
    return { ...page, messages: page.messages.filter(({ message }) => (message.readAt !== null) === read) };
  }

  /** Prints messages one by one, and marks those read that were printed. Returns false when the reader has ended. */
  async print(messages: readonly Received[]): Promise<boolean> {
    const { out } = this.ctx;
    const printed: Received[] = [];
    for (const received of messages) {
      const isPrinted = out.json
        ? out.jsonLine(received.json)
        : out.peerLines(messageLines(received, out.columns, this.ctx.clock.now()));
      if (!isPrinted) break;
      printed.push(received);
    }
    await this.#take(printed);
    return printed.length === messages.length;
  }

  async #take(messages: readonly Received[]): Promise<void> {
    if (!this.query.take || messages.length === 0) return;
    const ids = messages.map(({ message }) => message.id);
    const read = await readMessages(this.connector, { ids });
    const lost = ids.filter((id) => !read.includes(id));
    if (lost.length > 0) this.ctx.out.warn(`Another program has read ${lost.join(", ")} at the same time`);
  }
}
