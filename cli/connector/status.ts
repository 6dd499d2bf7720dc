/**
 * What a connector honestly knows about itself: the answer of `GET /v1/status`, the lines of `connector status`, and the
 * one line at the foot of a terminal.
 */
import { z } from "zod";
import { PLATFORM_IDS } from "../platforms/platform.ts";
import type { Field } from "../output.ts";

const When = z.string();

export const Status = z.object({
  agent: z.object({ name: z.string(), did: z.string() }),
  version: z.string(),
  pid: z.number(),
  startedAt: When,
  now: When,
  proxy: z.object({ url: z.string(), origin: z.string() }),
  connection: z.object({
    state: z.enum(["connecting", "connected", "waiting", "stopped"]),
    since: When,
    nextTryAt: When.nullable(),
    problem: z.string().nullable(),
    heartbeatMs: z.number().nullable(),
    heartbeatAt: When.nullable(),
  }),
  inbox: z.object({ waiting: z.number(), oldestAt: When.nullable(), bytes: z.number() }),
  deadLetters: z.number(),
  receiptsWaiting: z.number(),
  runtime: z.object({
    platform: z.enum(PLATFORM_IDS),
    url: z.string(),
    reachable: z.boolean().nullable(),
    checkedAt: When.nullable(),
    problem: z.string().nullable(),
  }),
  session: z.object({ accessExpiresAt: When, identityExpiresAt: When }),
  clockOffsetMs: z.number(),
});
/** How a connector is doing; times are ISO-8601. */
export type Status = z.infer<typeof Status>;

/** The lines of `connector status`. */
export function statusFields(status: Status): Field[] {
  const { connection, inbox, runtime, session } = status;
  const now = Date.parse(status.now);
  const ago = (iso: string) => `${iso} (${span(now - Date.parse(iso))} ago)`;
  const left = (iso: string) => {
    const ms = Date.parse(iso) - now;
    return ms > 0 ? `${iso} (in ${span(ms)})` : `${iso} (OVER for ${span(-ms)})`;
  };
  const reachable = runtime.reachable === null
    ? "not looked at yet"
    : runtime.reachable
    ? "reachable"
    : "NOT REACHABLE";
  return [
    ["proxy", status.proxy.url],
    ["connection", `${connection.state} since ${ago(connection.since)}`],
    ["next try", connection.nextTryAt === null ? undefined : left(connection.nextTryAt)],
    ["problem", connection.problem ?? undefined],
    ["heartbeat", heartbeat(status, now)],
    ["runtime", `${runtime.platform} at ${runtime.url}: ${reachable}`],
    ["runtime problem", runtime.problem ?? undefined],
    ["inbox", `${inbox.waiting} waiting${inbox.oldestAt === null ? "" : `, the oldest since ${ago(inbox.oldestAt)}`}`],
    ["dead letters", status.deadLetters],
    ["receipts to send", status.receiptsWaiting],
    ["access until", left(session.accessExpiresAt)],
    ["identity until", left(session.identityExpiresAt)],
    ["clock", status.clockOffsetMs === 0 ? undefined : `off by ${Math.round(status.clockOffsetMs / 1000)} s`],
    ["running since", `${ago(status.startedAt)}, pid ${status.pid}`],
  ];
}

function heartbeat({ connection: { heartbeatMs, heartbeatAt } }: Status, now: number): string {
  if (heartbeatMs === null || heartbeatAt === null) return "none yet";
  return `${heartbeatMs} ms, ${span(now - Date.parse(heartbeatAt))} ago`;
}

/** All of it in one line. */
export function statusLine(status: Status): string {
  const { agent, connection, inbox, deadLetters, receiptsWaiting, runtime, session, now } = status;
  const left = Date.parse(session.accessExpiresAt) - Date.parse(now);
  const runtimeIs = runtime.reachable === null ? "?" : runtime.reachable ? "up" : "DOWN";
  const parts = [
    `${agent.name}: ${connection.state} ${span(Date.parse(now) - Date.parse(connection.since))}`,
    connection.heartbeatMs === null ? null : `${connection.heartbeatMs} ms`,
    `runtime ${runtimeIs}`,
    `inbox ${inbox.waiting}`,
    `dead letters ${deadLetters}`,
    `token ${left > 0 ? span(left) : "OVER"}`,
    receiptsWaiting > 0 ? `receipts ${receiptsWaiting}` : null,
    connection.state === "connected" ? null : connection.problem,
  ];
  return parts.filter((part) => part !== null).join(" · ");
}

/** True when everything is as it should be. */
export function isWell({ connection, runtime, deadLetters }: Status): boolean {
  return connection.state === "connected" && runtime.reachable !== false && deadLetters === 0;
}

/** A length of time for people: `42 s`, `3 min`, `5 h`, `12 d`. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 2 * 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 48 * 3600 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}
