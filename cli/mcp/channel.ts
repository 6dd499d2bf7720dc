/**
 * Tells the program that runs this server of new messages, with notifications for Claude's channel preview. Without any
 * text of a message, because a peer could otherwise put text before a model that did not ask. Marks nothing read.
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { announcement } from "../messages/announcement.ts";
import type { Received } from "../messages/received.ts";
import { CALL_SECONDS, type McpAgent } from "./mcp_agent.ts";

/** With less, a connector that is away is asked again and again; with more, messages are announced later. */
export const WATCH_MS = 5_000;
/** With more, a full inbox makes one count read for seconds. */
const COUNTED_PAGES_MAX = 10;
/** With less, a host drops what it gets before it has begun to listen. */
const CHANNEL_DELAY_MS = 2_000;
/** With more, a burst wakes the model once for each of its messages. */
const MESSAGES_EACH_MAX = 5;
/** With more, a peer that writes all the time keeps the model, and its costs, running. */
export const NOTICES_MAX = 30;
/** With more, an agent that had a burst is silent for longer. */
export const NOTICES_WINDOW_MS = 10 * 60_000;

export const CHANNEL_CAPABILITY = "claude/channel";

export interface ChannelNotice {
  method: "notifications/claude/channel";
  params: { content: string; meta: { agent: string; count: string } };
}

/** Announces unread messages, then each new one, until `signal` aborts. Never rejects. */
export async function announce(
  mcp: McpAgent,
  notify: (notice: ChannelNotice) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const { clock } = mcp.options;
  const gate = new Gate(clock);
  await sleep(clock, CHANNEL_DELAY_MS, signal);
  let after = 0;
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    const found = await newMessages(mcp, after, isFirst ? 0 : CALL_SECONDS, signal);
    const isMany = isFirst || found.length > MESSAGES_EACH_MAX;
    for (const messages of isMany && found.length > 0 ? [found] : found.map((one) => [one])) {
      await gate.pass(signal);
      if (signal.aborted) return;
      await notify(noticeOf(mcp.options.identity.name, messages)).catch(() => {});
    }
    after = found.at(-1)?.message.id ?? after;
    await sleep(clock, CONNECTOR_LIMITS.waitPauseMs, signal);
  }
}

/** All unread messages behind an ID, on at most `COUNTED_PAGES_MAX` pages, waiting for the first one. */
export async function unreadMessages(mcp: McpAgent, after: number, wait: number): Promise<Received[]> {
  const found: Received[] = [];
  const limit = CONNECTOR_LIMITS.pageMessagesMax;
  for (let pages = 0, more = true; more && pages < COUNTED_PAGES_MAX; pages++) {
    const last = found.at(-1)?.message.id ?? after;
    const page = await mcp.page({ unread: true, after: last, limit, wait: pages === 0 ? wait : 0 });
    found.push(...page.messages);
    more = page.more;
  }
  return found;
}

/** The same; none while there is no connector. */
export async function newMessages(
  mcp: McpAgent,
  after: number,
  wait: number,
  signal: AbortSignal,
): Promise<Received[]> {
  try {
    return await unreadMessages(mcp, after, wait);
  } catch {
    await sleep(mcp.options.clock, WATCH_MS, signal);
    return [];
  }
}

function noticeOf(agent: string, messages: readonly Received[]): ChannelNotice {
  const content = announcement(agent, messages.map(({ message }) => message));
  return { method: "notifications/claude/channel", params: { content, meta: { agent, count: `${messages.length}` } } };
}

class Gate {
  #passed: number[] = [];

  constructor(private readonly clock: Clock) {}

  async pass(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const now = this.clock.now();
      this.#passed = this.#passed.filter((at) => Math.abs(now - at) < NOTICES_WINDOW_MS);
      const [oldest = now] = this.#passed;
      if (this.#passed.length < NOTICES_MAX) break;
      await sleep(this.clock, oldest + NOTICES_WINDOW_MS - now, signal);
    }
    this.#passed.push(this.clock.now());
  }
}
