/**
 * Status of a connector: the response of `GET /v1/status`, the lines of `connector status`, and the live line of a
 * terminal.
 */
import * as z from "zod";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Field } from "../terminal/output.ts";
import { PLATFORM_IDS, RUNTIME_SOURCES, type RuntimeSource } from "../platforms/platform.ts";

/** How late a heartbeat may be before it counts as overdue. */
const HEARTBEAT_GRACE_MS = 10_000;

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
  /** Messages that the loop guard has refused since the start; absent in the response of a connector before D-113. */
  loopGuards: z.number().optional(),
  runtime: z.object({
    platform: z.enum(PLATFORM_IDS),
    /** `null` on the platform `inbox`, where the agent reads its messages. */
    url: z.string().nullable(),
    /** Where the address comes from; absent in the response of a connector before D-229. */
    source: z.enum(RUNTIME_SOURCES).optional(),
    /** Whether its answers go back to the senders (D-114); absent in the response of a connector before D-114. */
    replies: z.boolean().optional(),
    /** Whether the runtime answers; `null`: not checked yet. */
    reachable: z.boolean().nullable(),
    checkedAt: When.nullable(),
    /** Why the runtime does not answer, or answers but does not accept messages. */
    problem: z.string().nullable(),
  }),
  session: z.object({ accessExpiresAt: When, identityExpiresAt: When }),
  clockOffsetMs: z.number(),
  /** Absent in the response of a connector before D-231. */
  api: z.object({
    url: z.string(),
    /** The agent's own port, when another program has it. */
    movedFrom: z.number().nullable(),
  }).optional(),
});
/** Status of a connector; times are ISO 8601. */
export type Status = z.infer<typeof Status>;

/** The lines of `connector status`. */
export function statusFields(status: Status): Field[] {
  const { connection, inbox, runtime, session } = status;
  const now = Date.parse(status.now);
  const ago = (iso: string) => `${iso} (${formatDuration(now - Date.parse(iso))} ago)`;
  const left = (iso: string) => {
    const ms = Date.parse(iso) - now;
    return ms > 0 ? `${iso} (in ${formatDuration(ms)})` : `${iso} (OVER for ${formatDuration(-ms)})`;
  };
  return [
    ["proxy", status.proxy.url],
    ["connection", `${connection.state} since ${ago(connection.since)}`],
    ["next try", connection.nextTryAt === null ? undefined : left(connection.nextTryAt)],
    ["problem", connection.problem ?? undefined],
    ["heartbeat", heartbeat(status, now)],
    ["runtime", runtimeLine(status)],
    ["answers", runtime.replies ? "go back to the peers" : undefined],
    ["runtime from", runtime.source && RUNTIME_FROM[runtime.source]],
    ["runtime problem", runtime.problem ?? undefined],
    [
      "inbox",
      `${inbox.waiting} ${runtime.url === null ? "unread" : "waiting"}${
        inbox.oldestAt === null ? "" : `, the oldest since ${ago(inbox.oldestAt)}`
      }`,
    ],
    ["dead letters", status.deadLetters],
    ["receipts to send", status.receiptsWaiting],
    ["loop guard", status.loopGuards ? `${status.loopGuards} messages not sent` : undefined],
    ["access until", left(session.accessExpiresAt)],
    ["identity until", left(session.identityExpiresAt)],
    ["clock", status.clockOffsetMs === 0 ? undefined : `off by ${Math.round(status.clockOffsetMs / 1000)} s`],
    ["local API", status.api && apiIs(status.api)],
    ["running since", `${ago(status.startedAt)}, pid ${status.pid}`],
  ];
}

/** Sources of a runtime's address, in words. */
const RUNTIME_FROM: Readonly<Record<RuntimeSource, string>> = {
  option: "the options of connector start",
  environment: "the environment",
  agent: "the agent's runtime.json",
  install: "runtime.json of the configuration directory",
  default: "the default",
};

function apiIs({ url, movedFrom }: NonNullable<Status["api"]>): string {
  return movedFrom === null ? url : `${url}; another program has port ${movedFrom}`;
}

/** States of a runtime, in words. */
const RUNTIME_IS = {
  unknown: { long: "not checked yet", short: "?" },
  up: { long: "reachable", short: "up" },
  refuses: { long: "reachable, but does NOT accept messages", short: "REFUSES" },
  down: { long: "NOT REACHABLE", short: "DOWN" },
} as const;

function runtimeIs({ runtime: { reachable, problem } }: Status): keyof typeof RUNTIME_IS {
  if (reachable === null) return "unknown";
  if (!reachable) return "down";
  return problem === null ? "up" : "refuses";
}

function runtimeLine(status: Status): string {
  const { platform, url } = status.runtime;
  return url === null
    ? `${platform}: the agent reads its messages`
    : `${platform} at ${url}: ${RUNTIME_IS[runtimeIs(status)].long}`;
}

function heartbeat(status: Status, now: number): string {
  const { heartbeatMs, heartbeatAt } = status.connection;
  if (heartbeatMs === null || heartbeatAt === null) return "none yet";
  return `${heartbeatMs} ms, ${formatDuration(now - Date.parse(heartbeatAt))} ago${
    isQuiet(status) ? "; the next is OVERDUE" : ""
  }`;
}

/** The status in one line. */
export function statusLine(status: Status): string {
  const { agent, connection, inbox, deadLetters, receiptsWaiting, session } = status;
  const now = Date.parse(status.now);
  const left = Date.parse(session.accessExpiresAt) - now;
  const { nextTryAt } = connection;
  const parts = [
    `${agent.name}: ${connection.state} ${formatDuration(now - Date.parse(connection.since))}`,
    nextTryAt === null ? null : `next try in ${formatDuration(Date.parse(nextTryAt) - now)}`,
    isQuiet(status) ? "HEARTBEAT OVERDUE" : connection.heartbeatMs === null ? null : `${connection.heartbeatMs} ms`,
    status.runtime.url === null ? null : `runtime ${RUNTIME_IS[runtimeIs(status)].short}`,
    status.runtime.url === null ? `unread ${inbox.waiting}` : `inbox ${inbox.waiting}`,
    `dead letters ${deadLetters}`,
    `token ${left > 0 ? formatDuration(left) : "OVER"}`,
    receiptsWaiting > 0 ? `receipts ${receiptsWaiting}` : null,
    connection.state === "connected" ? null : connection.problem,
  ];
  return parts.filter((part) => part !== null).join(" · ");
}

/** The status of several agents in one line. */
export function fleetLine(agents: number, running: readonly Status[]): string {
  const count = (found: readonly Status[], what: string) => found.length === 0 ? null : `${found.length} ${what}`;
  const connected = running.filter(({ connection }) => connection.state === "connected");
  const parts = [
    `${agents} agents`,
    `${connected.length} connected`,
    agents === running.length ? null : `${agents - running.length} not running`,
    count(running.filter(({ runtime }) => runtime.reachable === false), "with the runtime DOWN"),
    count(running.filter(({ deadLetters }) => deadLetters > 0), "with dead letters"),
    `inbox ${running.reduce((sum, { inbox }) => sum + inbox.waiting, 0)}`,
  ];
  return parts.filter((part) => part !== null).join(" · ");
}

/** Connected, but a heartbeat is overdue. A dead link is detected within 60 s. */
function isQuiet({ connection: { state, since, heartbeatAt }, now }: Status): boolean {
  const last = Date.parse(heartbeatAt ?? since);
  return state === "connected" && Date.parse(now) - last > LIMITS.heartbeatIntervalMs + HEARTBEAT_GRACE_MS;
}

/** True when the connector is connected, its runtime accepts messages and nothing needs attention. */
export function isConnectorHealthy(status: Status): boolean {
  const { connection, runtime, deadLetters, session, now } = status;
  const isValid = (until: string) => Date.parse(until) > Date.parse(now);
  return connection.state === "connected" && !isQuiet(status) && runtime.reachable !== false &&
    runtime.problem === null && deadLetters === 0 && isValid(session.accessExpiresAt) &&
    isValid(session.identityExpiresAt);
}

/** A duration as text: `42 s`, `3 min`, `5 h`, `12 d`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 2 * 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 48 * 3600 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}
