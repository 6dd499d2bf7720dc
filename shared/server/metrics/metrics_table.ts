/**
 * Every metric of the services, one row each: type, labels with all values that they may have, and help. Only this
 * table defines series, because callers could otherwise add some without end. Times are in seconds, sizes in bytes. Each
 * name gets the prefix `svc_` when it is shown.
 */
import { ERRORS } from "../../protocol/errors.ts";
import { CLOSE, FRAMES } from "../../protocol/frames.ts";

/** A label with its name and its values. `"routes"` stands for the paths of the route tables. */
type MetricLabel = readonly [name: string, values: readonly string[] | "routes"];

export interface MetricRow {
  type: "counter" | "gauge" | "histogram";
  labels: readonly MetricLabel[];
  help: string;
  /** Upper bounds of the buckets of a histogram, ascending. */
  buckets?: readonly number[];
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const ROUTE: MetricLabel = ["route", "routes"];
const METHOD: MetricLabel = ["method", ["GET", "HEAD", "POST", "DELETE"]];
const SUCCESSES = [101, 200, 201, 202, 204, 304];
const STATUSES = new Set([...SUCCESSES, ...Object.values(ERRORS).flatMap(({ status }) => status)]);
const STATUS: MetricLabel = ["status", [...STATUSES].map(String)];
const CHECK: MetricLabel = ["check", ["none", "1", "2", "3", "4", "5", "6", "7", "8", "9"]];
/** Whether the caller's registry is this server's. Its name is no label, because strangers could then add series. */
const ORIGIN: MetricLabel = ["origin", ["local", "foreign"]];
const FRAME: MetricLabel = ["type", Object.keys(FRAMES)];
const DIRECTION: MetricLabel = ["direction", ["in", "out"]];
const MESSAGE_OUTCOMES = ["delivered", "refused_by_connector", "queued", "repeat", "offline", "failed", "unavailable"];
const MESSAGE_OUTCOME: MetricLabel = ["outcome", [...MESSAGE_OUTCOMES, "mailbox_full"]];

type Labels = readonly MetricLabel[];
const gauge = <L extends Labels>(help: string, ...labels: L) => ({ type: "gauge", labels, help }) as const;
const counter = <L extends Labels>(help: string, ...labels: L) => ({ type: "counter", labels, help }) as const;
const histogram = <L extends Labels>(help: string, buckets: readonly number[], ...labels: L) =>
  ({ type: "histogram", labels, help, buckets }) as const;

export const METRICS = {
  build_info: gauge("1; its labels say what runs", ["version", []], ["deno", []], ["service", []]),
  process_start_time_seconds: gauge("When the process started, Unix seconds"),
  process_resident_memory_bytes: gauge("Resident memory of the process"),
  ready: gauge("1 while this instance accepts requests, as /readyz says, else 0"),
  http_requests_total: counter("Answered requests by the path of their route table row", ROUTE, METHOD, STATUS),
  http_request_duration_seconds: histogram("Time from the request head to the response head", SECONDS, ROUTE),
  log_lines_dropped_total: counter("Lines of the log that were dropped because standard error was not read"),
  http_requests_in_flight: gauge("Requests without a response"),
  refusals_total: counter(
    "Error responses by code, by the number of the check that refused an agent, and by its server",
    ["code", Object.keys(ERRORS)],
    CHECK,
    ORIGIN,
  ),
  relay_sockets: gauge("Open relay sockets of this instance"),
  relay_agents: gauge("Agents with a relay socket at this instance"),
  relay_closes_total: counter(
    "Ended relay sockets by the close code of the proxy; other means that the connector ended it",
    ["code", Object.values(CLOSE).map(String)],
  ),
  instance_clock_difference_seconds: gauge(
    "Largest difference between the clock of this instance and that of another one; 0 up to 2 s",
  ),
  relay_messages_total: counter(
    "Admitted messages by their result for the sender, and by the sender's server",
    MESSAGE_OUTCOME,
    ORIGIN,
  ),
  relay_ack_seconds: histogram("Time from a deliver frame to the acknowledgement of the connector", SECONDS),
  relay_frames_total: counter("Frames of relay sockets", FRAME, DIRECTION),
  relay_frame_bytes_total: counter(
    "Length of the frames of relay sockets, in UTF-16 units: bytes where the text is ASCII",
    FRAME,
    DIRECTION,
  ),
  relay_handovers_total: counter(
    "Answers of connectors to queued messages, and queued messages that ended without delivery",
    ["outcome", ["delivered", "nacked", "dead"]],
  ),
  mailbox_messages: gauge("Queued messages in the store"),
  mailbox_recipients: gauge("Recipients with queued messages"),
  mailbox_oldest_seconds: gauge("Age of the oldest queued message; 0 without one"),
  mailbox_fullest_ratio: gauge(
    "Largest share of its bound that is used: messages to a recipient or of a sender to it, or bytes of an owner",
  ),
  receipts_total: counter("Recorded receipts by status", ["status", ["processed_by_svc", "dead_lettered"]]),
  crl_age_seconds: gauge("Age of the proxy's revocation list; -1 without one"),
  crl_entries: gauge("Entries of the proxy's revocation list; -1 without one"),
  registry_keys_age_seconds: gauge("Age of the proxy's copy of the registry's keys; -1 without one"),
  crl_refreshes_total: counter("Requests of the proxy for the revocation list by result", [
    "result",
    ["new", "same", "empty", "failed", "rollback"],
  ]),
  issuer_calls_total: counter(
    "Requests of the proxy for keys and revocation lists of other registries by result",
    ["result", ["answered", "failed"]],
  ),
  revocation_close_seconds: histogram("Time from the announcement of a revocation to the close of a socket", SECONDS),
  agents: gauge("Agents of the registry by status", ["status", ["active", "revoked"]]),
  agents_offline_1d: gauge("Agents that were connected within 90 days and are offline for over a day"),
  agent_tokens_expiring_7d: gauge("Active agents whose identity token ends within 7 days and has not ended"),
  agents_registered_total: counter("Registered agents"),
  agents_revoked_total: counter("Agents that were revoked permanently"),
  aits_issued_total: counter("Issued identity tokens"),
  people_suspended_total: counter("Suspended people"),
  sessions_refreshed_total: counter("Requests to refresh a session by result", ["result", [
    "rotated",
    "recovered",
    "refused",
    "reuse_detected",
  ]]),
  store_bytes: gauge("Bytes of the store's file, with what SQLite has not moved into it"),
  store_free_bytes: gauge("Free bytes of the disk that holds the store's file"),
  store_reserve_bytes: gauge(
    "Bytes of that disk that queued messages, receipts and pairs leave free: STORE_RESERVE_BYTES",
  ),
  store_commit_seconds: histogram("Time of a group commit in the store", SECONDS),
  store_batch_claims: histogram("Claims in one group commit", [1, 2, 5, 10, 20, 50, 100]),
  store_commits_total: counter("Commits by result", ["result", ["ok", "conflict", "error"]]),
  bus_notes_total: counter("Notes between the parts and instances of the proxy that arrived here", ["kind", [
    "message",
    "dispatched",
    "asked",
    "moved",
    "kick",
    "paired",
    "delivery",
    "senders",
  ]]),
  relay_crossings_total: counter(
    "Messages to agents of other instances by their way: the link between two instances, or the store",
    ["way", ["link", "note"]],
  ),
  instance_links: gauge("Open links to other instances"),
  instance_links_missing: gauge("Other instances with an address to which this one has no link"),
  held_bytes: gauge("Bytes of messages that wait for their result"),
  body_room_bytes: gauge("Bytes of large request bodies that are being read or handled"),
  unsent_bytes: gauge("Bytes that relay sockets have not sent yet"),
  admin_requests_total: counter("Requests of admins by area", ["area", ["people", "agents", "audit", "relay"]]),
} as const satisfies Readonly<Record<string, MetricRow>>;

export type MetricName = keyof typeof METRICS;
