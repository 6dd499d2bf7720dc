/**
 * Notifications for Claude's channel preview (D-133): a line for each new message, without any text of it. Marks nothing
 * read.
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { announcement } from "../messages/announcement.ts";
import type { Received } from "../messages/received.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";
import type { McpAgent } from "./mcp_agent.ts";

/** The experimental capability of a server with a channel. */
export const CHANNEL_CAPABILITY = "claude/channel";

/** A notification for the MCP client. */
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
  await sleep(clock, LIMIT.channelDelayMs, signal);
  let after = 0;
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    const found = await newMessages(mcp, after, isFirst ? 0 : LIMIT.callSeconds, signal);
    const isMany = isFirst || found.length > LIMIT.channelMessages;
    for (const messages of isMany && found.length > 0 ? [found] : found.map((one) => [one])) {
      await gate.pass(signal);
      if (signal.aborted) return;
      await notify(noticeOf(mcp.options.identity.name, messages)).catch(() => {});
    }
    after = found.at(-1)?.message.id ?? after;
    await sleep(clock, CONNECTOR_LIMITS.waitPauseMs, signal);
  }
}

/** All unread messages behind an ID, waiting for the first one; none while there is no connector. */
async function newMessages(mcp: McpAgent, after: number, wait: number, signal: AbortSignal): Promise<Received[]> {
  const found: Received[] = [];
  const limit = CONNECTOR_LIMITS.pageMessagesMax;
  try {
    for (let pages = 0, more = true; more && pages < LIMIT.countedPages; pages++) {
      const last = found.at(-1)?.message.id ?? after;
      const page = await mcp.page({ unread: true, after: last, limit, wait: pages === 0 ? wait : 0 });
      found.push(...page.messages);
      more = page.more;
    }
  } catch {
    await sleep(mcp.options.clock, LIMIT.watchMs, signal);
  }
  return found;
}

function noticeOf(agent: string, messages: readonly Received[]): ChannelNotice {
  const content = announcement(agent, messages.map(({ message }) => message));
  return { method: "notifications/claude/channel", params: { content, meta: { agent, count: `${messages.length}` } } };
}

/** Bounds the notifications in a window. */
class Gate {
  readonly #clock: Clock;
  #passed: number[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async pass(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const now = this.#clock.now();
      this.#passed = this.#passed.filter((at) => Math.abs(now - at) < LIMIT.channelWindowMs);
      const [oldest = now] = this.#passed;
      if (this.#passed.length < LIMIT.channelNotices) break;
      await sleep(this.#clock, oldest + LIMIT.channelWindowMs - now, signal);
    }
    this.#passed.push(this.#clock.now());
  }
}
