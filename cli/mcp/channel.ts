/**
 * Tells the program that runs this server of new messages: notifications for Claude's channel preview, or a line that wakes
 * its model. Without any text of a message, because a peer could otherwise put text before a model that did not ask. Marks
 * nothing read.
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import { CONNECTOR_LIMITS, CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { announcement } from "../messages/announcement.ts";
import type { Received } from "../messages/received.ts";
import { CALL_SECONDS, type McpAgent } from "./mcp_agent.ts";
import type { System } from "../context.ts";

/** With less, a connector that is away is asked again and again; with more, messages are announced later. */
export const WATCH_MS = 5_000;
/** With more, a full inbox makes one count read for seconds. */
export const COUNTED_PAGES_MAX = 10;
/** With less, a host drops what it gets before it has begun to listen. */
const CHANNEL_DELAY_MS = 2_000;
/** With more, a burst wakes the model once for each of its messages. */
const MESSAGES_EACH_MAX = 5;
/** With more, a peer that writes all the time keeps the model, and its costs, running. */
export const NOTICES_MAX = 30;
/** With more, an agent that had a burst is silent for longer. */
export const NOTICES_WINDOW_MS = 10 * 60_000;

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

/** All unread messages behind an ID, waiting for the first one; none while there is no connector. */
export async function newMessages(
  mcp: McpAgent,
  after: number,
  wait: number,
  signal: AbortSignal,
): Promise<Received[]> {
  const found: Received[] = [];
  const limit = CONNECTOR_LIMITS.pageMessagesMax;
  try {
    for (let pages = 0, more = true; more && pages < COUNTED_PAGES_MAX; pages++) {
      const last = found.at(-1)?.message.id ?? after;
      const page = await mcp.page({ unread: true, after: last, limit, wait: pages === 0 ? wait : 0 });
      found.push(...page.messages);
      more = page.more;
    }
  } catch {
    await sleep(mcp.options.clock, WATCH_MS, signal);
  }
  return found;
}

function noticeOf(agent: string, messages: readonly Received[]): ChannelNotice {
  const content = announcement(agent, messages.map(({ message }) => message));
  return { method: "notifications/claude/channel", params: { content, meta: { agent, count: `${messages.length}` } } };
}

/** Bounds the notifications in a window. */
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

/**
 * The way to the model itself goes through what the program has for it: Claude Code the inbox of its session, Codex the
 * queue of its thread. The line says how many messages there are and from whom, never a text of them.
 */

/** With less, a model that waits for a message is woken for the one that it takes at this moment. */
const WAKE_DELAY_MS = 2_000;

/** Gives a line to the model; false when that has failed. */
export type Wake = (line: string) => Promise<boolean>;

/**
 * Announces unread messages, then each new one, until `signal` aborts. Never rejects. A message is announced once, and not at
 * all when it has been read a moment later: the model was waiting for it.
 *
 * @param wayOf returns the way to the model; `null` while there is none
 */
export async function wakeModel(mcp: McpAgent, wayOf: () => Wake | null, signal: AbortSignal): Promise<void> {
  const { clock, identity } = mcp.options;
  let wakeUps: number[] = [];
  let after = 0;
  while (!signal.aborted) {
    const wake = wayOf();
    const found = wake === null ? [] : await newMessages(mcp, after, CALL_SECONDS, signal);
    if (wake === null || found.length === 0) {
      await sleep(clock, wake === null ? WATCH_MS : LIMIT.waitPauseMs, signal);
      continue;
    }
    await sleep(clock, WAKE_DELAY_MS, signal);
    wakeUps = wakeUps.filter((at) => Math.abs(clock.now() - at) < LIMIT.hookWakeUpsMs);
    const [oldest = 0] = wakeUps;
    if (wakeUps.length >= LIMIT.hookWakeUps) {
      await sleep(clock, oldest + LIMIT.hookWakeUpsMs - clock.now(), signal);
      continue;
    }
    const left = await newMessages(mcp, after, 0, signal);
    if (signal.aborted) return;
    if (left.length > 0) {
      wakeUps.push(clock.now());
      // After a failure it is tried again; the wake-ups are counted before.
      if (!await wake(announcement(identity.name, left.map(({ message }) => message)))) continue;
    }
    after = (left.at(-1) ?? found.at(-1))?.message.id ?? after;
  }
}

/** The way to the model of Claude Code: `null` where it has set no inbox. */
export function claudeInbox({ env, os, writeSocket }: Pick<System, "env" | "os" | "writeSocket">): Wake | null {
  const path = env("CLAUDE_CODE_MESSAGING_SOCKET");
  // On Windows it is a named pipe, which this program cannot open, so there the hook wakes.
  if (path === undefined || os === "windows" || writeSocket === undefined) return null;
  const token = env("CLAUDE_CODE_MESSAGING_TOKEN");
  return async (line) => {
    const message = { type: "user", message: { role: "user", content: line } };
    const lines = [...token === undefined ? [] : [{ type: "auth", token }], message];
    const text = lines.map((one) => `${JSON.stringify(one)}\n`).join("");
    return await writeSocket(path, text).then(() => true, () => false);
  };
}

/** A thread of Codex, as it names itself in each call of a tool. */
export function codexThread(meta: Record<string, unknown> | undefined): string | null {
  const { threadId } = meta ?? {};
  return typeof threadId === "string" && /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(threadId)
    ? threadId
    : null;
}

/**
 * The way to the model of Codex.
 *
 * @param run runs a program; the exit code, `null` when it is not installed
 */
export function codexQueue(thread: string, run: (program: string, args: string[]) => Promise<number | null>): Wake {
  return async (line) => await run("codex", ["queue", "--thread", thread, "--message", line]).catch(() => null) === 0;
}
