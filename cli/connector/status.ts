/**
 * Status of a connector: the response of `GET /v1/status`, and the lines of `connector status`.
 */
import { formatDuration } from "../terminal/times.ts";
import * as z from "zod";
import { call, get, type LocalCalls, STATUS_MS } from "../../shared/client/local_client.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Field } from "../terminal/output.ts";
import { PLATFORM_IDS, RUNTIME_SOURCES, type RuntimeSource } from "../platforms/platform.ts";

/** How late a heartbeat may be before it counts as overdue. With less, a slow line would look like a lost link. */
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
  inbox: z.object({
    waiting: z.number(),
    oldestAt: When.nullable(),
    bytes: z.number(),
    /** Why messages cannot be stored, so that their senders keep them; `null` when they can. */
    problem: z.string().nullable(),
  }),
  deadLetters: z.number(),
  receiptsWaiting: z.number(),
  /** Messages that the loop guard has refused since the start. */
  loopGuards: z.number(),
  /** Messages that were refused since the start because of their proof, their sender or their payload. */
  refused: z.number(),
  runtime: z.object({
    platform: z.enum(PLATFORM_IDS),
    /** `null` on the platform `inbox`, where the agent reads its messages. */
    url: z.string().nullable(),
    /** Where the address comes from; `null` on the platform `inbox`. */
    source: z.enum(RUNTIME_SOURCES).nullable(),
    replies: z.boolean(),
    /** Whether the runtime answers; `null` before the first check. */
    reachable: z.boolean().nullable(),
    checkedAt: When.nullable(),
    /** Why the runtime does not answer, or answers but does not accept messages. */
    problem: z.string().nullable(),
  }),
  session: z.object({
    accessExpiresAt: When,
    identityExpiresAt: When,
    /** Why the access token could not be refreshed, which ends the link with it; `null` when it could. */
    problem: z.string().nullable(),
  }),
  clockOffsetMs: z.number(),
  /** The servers of peers elsewhere, by host. */
  servers: z.array(z.object({
    host: z.string(),
    peers: z.number(),
    /** When the server was called last; `null` before the first call. */
    calledAt: When.nullable(),
    /** Why the last call failed; `null` after success. */
    problem: z.string().nullable(),
  })),
  /** Peers for which the registry has signed another key within seven days. */
  otherKeys: z.array(z.string()),
  /** `null` before the local API listens. */
  api: z.object({
    url: z.string(),
    /** The agent's own port, when another program has it. */
    movedFrom: z.number().nullable(),
  }).nullable(),
});
export type Status = z.infer<typeof Status>;

/** @throws as `call` */
export function statusOf(connector: LocalCalls): Promise<Status> {
  return call(connector, Status, { ...get("/v1/status"), timeoutMs: STATUS_MS });
}

export function statusFields(status: Status): Field[] {
  const { connection, inbox, runtime, session } = status;
  const now = Date.parse(status.now);
  const ago = (iso: string) => `${iso} (${formatDuration(now - Date.parse(iso))} ago)`;
  const left = (iso: string) => {
    const ms = Date.parse(iso) - now;
    return ms > 0 ? `${iso} (in ${formatDuration(ms)})` : `${iso} (OVER for ${formatDuration(-ms)})`;
  };
  const oldest = inbox.oldestAt === null ? "" : `, the oldest since ${ago(inbox.oldestAt)}`;
  return [
    ["proxy", status.proxy.url],
    ["connection", `${connection.state} since ${ago(connection.since)}`],
    ["next try", connection.nextTryAt === null ? undefined : left(connection.nextTryAt)],
    ["problem", connection.problem ?? undefined],
    ["heartbeat", heartbeat(status, now)],
    ["runtime", runtimeLine(status)],
    ["answers", runtime.replies ? "go back to the peers" : undefined],
    ["runtime from", runtime.source === null ? undefined : RUNTIME_FROM[runtime.source]],
    ["runtime problem", runtime.problem ?? undefined],
    ["inbox", `${inbox.waiting} ${runtime.url === null ? "unread" : "waiting"}${oldest}`],
    ["inbox problem", inbox.problem === null ? undefined : `messages cannot be stored: ${inbox.problem}`],
    ["dead letters", status.deadLetters],
    ["receipts to send", status.receiptsWaiting],
    ["loop guard", status.loopGuards ? `${status.loopGuards} not sent` : undefined],
    ...status.servers.map(({ host, peers, calledAt, problem }): Field => {
      const how = problem === null ? "answered" : `${problem},`;
      const last = calledAt === null ? "not called yet" : `${how} ${ago(calledAt)}`;
      return [`server ${host}`, `${peers} ${peers === 1 ? "peer" : "peers"}, ${last}`];
    }),
    ["other key", status.otherKeys.length === 0 ? undefined : `signed for ${status.otherKeys.join(", ")}: REFUSED`],
    ["access until", left(session.accessExpiresAt)],
    ["access problem", session.problem === null ? undefined : `it could not be refreshed: ${session.problem}`],
    ["identity until", left(session.identityExpiresAt)],
    ["clock", status.clockOffsetMs === 0 ? undefined : `off by ${Math.round(status.clockOffsetMs / 1000)} s`],
    ["local API", status.api === null ? undefined : apiIs(status.api)],
    ["running since", `${ago(status.startedAt)}, pid ${status.pid}`],
  ];
}

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

function runtimeLine({ runtime: { platform, url, reachable, problem } }: Status): string {
  if (url === null) return `${platform}: the agent reads its messages`;
  const works = problem === null ? "reachable" : "reachable, but does NOT accept messages";
  return `${platform} at ${url}: ${reachable === null ? "not checked yet" : reachable ? works : "NOT REACHABLE"}`;
}

function heartbeat(status: Status, now: number): string {
  const { heartbeatMs, heartbeatAt } = status.connection;
  if (heartbeatMs === null || heartbeatAt === null) return "none yet";
  const next = isQuiet(status) ? "; the next is OVERDUE" : "";
  return `${heartbeatMs} ms, ${formatDuration(now - Date.parse(heartbeatAt))} ago${next}`;
}

/** Whether the link is connected, but a heartbeat is overdue. A dead link is found within 26 s. */
function isQuiet({ connection: { state, since, heartbeatAt }, now }: Status): boolean {
  const last = Date.parse(heartbeatAt ?? since);
  return state === "connected" && Date.parse(now) - last > LIMITS.heartbeatIntervalMs + HEARTBEAT_GRACE_MS;
}

/** Returns the problem that a person is told first; `null` without any. */
export function problemOf({ connection, inbox, session, runtime }: Status): string | null {
  return connection.problem ?? inbox.problem ?? session.problem ?? runtime.problem;
}

/** True when the connector is connected, stores messages, its runtime accepts them and nothing needs attention. */
export function isConnectorHealthy(status: Status): boolean {
  const { connection, inbox, runtime, deadLetters, session, otherKeys, now } = status;
  const isValid = (until: string) => Date.parse(until) > Date.parse(now);
  return connection.state === "connected" && !isQuiet(status) && inbox.problem === null &&
    runtime.reachable !== false && runtime.problem === null && deadLetters === 0 && otherKeys.length === 0 &&
    isValid(session.accessExpiresAt) &&
    isValid(session.identityExpiresAt);
}
