/**
 * Wakes the model with a line that says how many messages there are and from whom. It has no text of a message, because
 * a peer could otherwise put text before a model that did not ask. It goes through the inbox of a session of Claude
 * Code, or the queue of a thread of Codex.
 */
import { sleep } from "../../shared/clock.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { keyOf, Unseen } from "../connector/unseen.ts";
import { WindowBudget } from "../connector/window_budget.ts";
import type { System } from "../context.ts";
import { announcement } from "../messages/announcement.ts";
import type { Received } from "../messages/received.ts";
import { newMessages, unreadPages, WATCH_MS } from "./channel.ts";
import { CALL_SECONDS, type McpAgent } from "./mcp_agent.ts";

/** With less, a model that waits for a message would also be woken for the message that ends its wait. */
const WAKE_DELAY_MS = 2_000;

/** Gives a line to the model; false when that has failed. */
export type Wake = (line: string) => Promise<boolean>;

/**
 * Announces unread messages, then each new one, until `signal` aborts. Never rejects. A message is announced once, and
 * not at all if it is read a moment later, because the model was then waiting for it.
 *
 * @param wayOf returns the way to the model; `null` while there is none
 */
export async function wakeModel(mcp: McpAgent, wayOf: () => Wake | null, signal: AbortSignal): Promise<void> {
  const { clock, connector } = mcp.options;
  const wakeUps = new WindowBudget(LIMIT.hookWakeUps, LIMIT.hookWakeUpsMs);
  const unseen = new Unseen();
  let found: Received[] = [];
  while (!signal.aborted) {
    const wake = wayOf();
    if (wake !== null) found.push(...await newMessages(mcp, unseen, found.length > 0 ? 0 : CALL_SECONDS, signal));
    if (wake === null || found.length === 0) {
      await sleep(clock, wake === null ? WATCH_MS : LIMIT.waitPauseMs, signal);
      continue;
    }
    await sleep(clock, WAKE_DELAY_MS, signal);
    const wait = wakeUps.wait(clock.now());
    if (wait > 0) {
      await sleep(clock, wait, signal);
      continue;
    }
    found.push(...await newMessages(mcp, unseen, 0, signal));
    const left = await stillUnread(mcp, found);
    if (signal.aborted) return;
    if (left === null) continue;
    const still = new Set(left.map(keyOf));
    for (const message of found) if (!still.has(keyOf(message))) unseen.forget(message);
    found = left;
    if (found.length > 0) {
      wakeUps.take(clock.now());
      // A failure is tried again. It is counted too, because it would otherwise be tried every 2 s.
      if (!await wake(announcement(connector.agentName, found.map(({ message }) => message)))) continue;
    }
    found = [];
  }
}

/** Returns those of the messages that are unread still; `null` if the connector goes away. */
async function stillUnread(mcp: McpAgent, found: readonly Received[]): Promise<Received[] | null> {
  const keys = new Set(found.map(keyOf)), left: Received[] = [];
  try {
    const before = Math.min(...found.map(({ message }) => message.id)) - 1;
    for await (const { messages } of unreadPages(mcp, before, 0)) {
      left.push(...messages.filter((one) => keys.has(keyOf(one))));
    }
  } catch {
    return null;
  }
  return left;
}

/** Returns the way to the model of Claude Code; `null` when Claude Code has set no inbox. */
export function claudeInbox({ env, os, writeSocket }: Pick<System, "env" | "os" | "writeSocket">): Wake | null {
  const path = env("CLAUDE_CODE_MESSAGING_SOCKET");
  // On Windows the inbox is a named pipe, which this program cannot open, so there the hook wakes the model.
  if (path === undefined || os === "windows" || writeSocket === undefined) return null;
  const token = env("CLAUDE_CODE_MESSAGING_TOKEN");
  return async (line) => {
    const message = { type: "user", message: { role: "user", content: line } };
    const lines = [...token === undefined ? [] : [{ type: "auth", token }], message];
    const text = lines.map((one) => `${JSON.stringify(one)}\n`).join("");
    return await writeSocket(path, text).then(() => true, () => false);
  };
}

/** Returns the Codex thread that has called a tool; Codex names it in each call. */
export function codexThread(meta: Record<string, unknown> | undefined): string | null {
  const { threadId } = meta ?? {};
  return typeof threadId === "string" && /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(threadId)
    ? threadId
    : null;
}

/** @param run runs a program; the exit code, `null` when it is not installed */
export function codexQueue(thread: string, run: (program: string, args: string[]) => Promise<number | null>): Wake {
  return async (line) => await run("codex", ["queue", "--thread", thread, "--message", line]).catch(() => null) === 0;
}
