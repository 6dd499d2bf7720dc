/**
 * Events of a running connector: names and plain values, never a secret or the content of a message. The console view
 * prints them as sentences on a terminal and as JSON lines in a pipe.
 */
import { describeError } from "../../shared/client/refusals.ts";
import type { EventFields } from "../link/link_events.ts";
import { formatDuration } from "../terminal/times.ts";

/** What a person reads of an event: a sentence without its end, or the whole text. `end` is the reason, or a full stop. */
export type EventText = string | ((fields: EventFields & { end: string }) => string);

/** The text of an event that needs no attention, so that only the view of all events shows it. */
const quiet = (text: EventText) => ({ quiet: text });

export const EVENTS = {
  started: quiet("Started"),
  port_moved: "The port of the local API is taken; another is used for this run",
  stopping: quiet("Stopping"),
  stopped: "Stopped",
  busy: "Another process runs this agent's connector",
  agent_stopped: "The connector of this agent has ended; it is started again later",
  connected: "Connected",
  disconnected: "Disconnected",
  refused: "The server refused the connection",
  unreachable: "The server cannot be reached",
  waiting: quiet(({ ms }) => `Next try in ${formatDuration(Number(ms))}.`),
  clock_offset: "This machine's clock differs from the service's; using the service's time",
  refreshed: quiet("The session was refreshed"),
  refresh_failed: "The session could not be refreshed",
  reloaded: quiet("The agent's files have changed; they were read again"),
  received: quiet(({ peer }) => `A message of ${peer} arrived.`),
  probed: quiet(({ peer }) => `${peer} has tested the delivery.`),
  repeated: quiet(({ peer }) => `A message of ${peer} arrived again; it is stored already.`),
  proof_refused: "Message refused: it is not what a peer signed",
  peer_key_changed: "The registry has signed another key for a peer; its messages are refused",
  contact_listed: "A new contact: an agent that did not prove a ticket of yours",
  memory_lost: "The store is new; older messages are refused, because one of them may have been handed over before",
  registry_unavailable: "Messages wait at the server, because their senders cannot be checked now",
  clock_offset_refused: "The service's time is more than a day off; it is not used",
  inbox_full: "Message refused: the inbox is full",
  store_failed: "The store could not be written",
  handed_over: quiet(({ peer }) => `The runtime has taken a message of ${peer}.`),
  task_ended: quiet("The runtime's task for a message has ended"),
  handover_failed: "The runtime did not accept a message",
  dead_letter: "Message moved to the dead-letter list",
  runtime_up: quiet("The agent runtime is reachable"),
  runtime_down: "The agent runtime is not reachable",
  receipt_sent: quiet(({ peer, status }) =>
    `${peer} was told that a message is ${status === "dead_lettered" ? "given up" : "read"}.`
  ),
  receipt_failed: "A receipt could not be sent; it is kept",
  receipt_refused: "A receipt was rejected permanently",
  receipt_invalid: "A receipt is not what the peer signed; the server's word is not taken for it",
  sent: quiet(({ peer }) => `A message to ${peer} has arrived.`),
  queued: quiet(({ peer }) => `A message to ${peer} waits at the server.`),
  not_taken: quiet(({ peer, end }) => `${peer} did not accept a message${end}`),
  not_sent: quiet(({ peer, end }) => `A message to ${peer} was not sent${end}`),
  reply_too_large: "The runtime's answer is too large; no reply is sent",
  reply_invalid: "The runtime's answer is not a payload that peers can read; no reply is sent",
  reply_lost: "The runtime's answer broke off; its reply is lost",
  kept: quiet("Message kept; it is sent again"),
  kept_ended: "A kept message was not sent",
  reply_failed: "A reply could not be sent; it is kept",
  reply_refused: "A reply was rejected permanently",
  loop_guard: "Message not sent: the loop guard stopped it",
  paired: ({ agentName, humanName, alias }) =>
    `Paired with ${agentName} of ${humanName}.${alias === undefined ? "" : ` It is called ${alias} here.`}`,
  pair_ended: ({ peer, humanName }) => `The pair with ${peer} of ${humanName} has ended.`,
  revoked: "The agent is no longer authorised",
  pair_ticket: quiet("Pairing started"),
  pair_waits: "A pairing is not finished; it is tried again",
  pair_failed: "A pairing has failed; ask for another ticket",
  pair_half_removed: "The pair with an agent of another server has ended",
  lines_dropped: quiet("Lines were dropped, because their reader was too slow"),
  exec_failed: "The program of --exec failed",
  defect: "An unexpected failure; the connector continues",
  peers_failed: "The peers could not be read",
} as const satisfies Record<string, EventText | { quiet: EventText }>;
export type EventName = keyof typeof EVENTS;

export type EmitEvent = (event: EventName, fields?: EventFields) => void;

/**
 * Runs work on the store. A failure is only reported, because no caller could act on it; `otherwise` is then returned.
 */
export function orReport<T>(emit: EmitEvent, work: () => T, otherwise: T, about: EventFields = {}): T {
  try {
    return work();
  } catch (error) {
    emit("store_failed", { ...about, why: describeError(error) });
    return otherwise;
  }
}

/** Adds the alias of the peer that an event is about, as `peer`. */
export function withAlias(
  fields: EventFields | undefined,
  aliasOf: (did: string) => string | null,
): EventFields | undefined {
  const did = fields?.from ?? fields?.to;
  const peer = typeof did === "string" ? aliasOf(did) : null;
  return peer === null ? fields : { ...fields, peer };
}

/**
 * What an event tells of a new peer. An alias that differs from the agent's name is added, because the name alone could
 * be that of another peer.
 */
export function pairedFields(alias: string | null, { agentName, humanName }: { agentName: string; humanName: string }) {
  return { agentName, humanName, ...alias === null || alias === agentName ? {} : { alias } };
}
