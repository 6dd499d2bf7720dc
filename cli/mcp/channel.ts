/**
 * Tells the program that runs this server of new messages, with notifications for Claude's channel preview. They
 * contain no text of a message, because a peer could otherwise put text before a model that did not ask. Nothing is
 * marked read.
 */
import { sleep } from "../../shared/clock.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { Unseen } from "../connector/unseen.ts";
import { WindowBudget } from "../connector/window_budget.ts";
import { announcement } from "../messages/announcement.ts";
import type { Received, ReceivedPage } from "../messages/received.ts";
import { CALL_SECONDS, type McpAgent } from "./mcp_agent.ts";

/** Wait for a connector that is away. With less, it is asked all the time; with more, messages are announced later. */
export const WATCH_MS = 5_000;
/** With more, a full inbox would make one count read pages for seconds. */
const COUNTED_PAGES_MAX = 10;
/** With less, a host would drop what it gets before it has begun to listen. */
const CHANNEL_DELAY_MS = 2_000;
/** Up to this many new messages are announced one by one. With more, a burst wakes the model once for each message. */
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
  const notices = new WindowBudget(NOTICES_MAX, NOTICES_WINDOW_MS);
  await sleep(clock, CHANNEL_DELAY_MS, signal);
  const unseen = new Unseen();
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    const found = await newMessages(mcp, unseen, isFirst ? 0 : CALL_SECONDS, signal);
    const isMany = isFirst || found.length > MESSAGES_EACH_MAX;
    for (const messages of isMany && found.length > 0 ? [found] : found.map((one) => [one])) {
      while (!signal.aborted && notices.wait(clock.now()) > 0) await sleep(clock, notices.wait(clock.now()), signal);
      if (signal.aborted) return;
      notices.take(clock.now());
      await notify(noticeOf(mcp.options.connector.agentName, messages)).catch(() => {});
    }
    await sleep(clock, CONNECTOR_LIMITS.waitPauseMs, signal);
  }
}

/**
 * Yields the unread messages whose IDs are above `after`, on at most `COUNTED_PAGES_MAX` pages. The first page waits up
 * to `wait` seconds for a message.
 */
export async function* unreadPages(mcp: McpAgent, after: number, wait: number): AsyncGenerator<ReceivedPage> {
  const limit = CONNECTOR_LIMITS.pageMessagesMax;
  for (let pages = 0, more = true; more && pages < COUNTED_PAGES_MAX; pages++) {
    const page = await mcp.page({ unread: true, after, limit, wait: pages === 0 ? wait : 0 });
    yield page;
    after = page.messages.at(-1)?.message.id ?? after;
    more = page.more;
  }
}

/** Returns the unread messages that are new; only those read so far if the connector goes away. */
export async function newMessages(
  mcp: McpAgent,
  unseen: Unseen,
  wait: number,
  signal: AbortSignal,
): Promise<Received[]> {
  const found: Received[] = [];
  try {
    for await (const page of unreadPages(mcp, unseen.after, wait)) found.push(...unseen.news(page));
  } catch {
    await sleep(mcp.options.clock, WATCH_MS, signal);
  }
  return found;
}

function noticeOf(agent: string, messages: readonly Received[]): ChannelNotice {
  const content = announcement(agent, messages.map(({ message }) => message));
  return { method: "notifications/claude/channel", params: { content, meta: { agent, count: `${messages.length}` } } };
}
