/**
 * Events of a running connector: names and plain values, never a secret or the content of a message. The console view
 * prints them as sentences on a terminal and as JSON lines in a pipe.
 */
import { describeError } from "../../shared/client/refusals.ts";
import type { EventFields } from "../link/link_events.ts";

export const EVENTS = {
  started: "Started",
  port_moved: "The port of the local API is taken; another is used for this run",
  stopping: "Stopping",
  stopped: "Stopped",
  busy: "Another process runs this agent's connector",
  agent_stopped: "The connector of this agent has ended; it is started again later",
  connected: "Connected",
  disconnected: "Disconnected",
  refused: "The proxy refused the connection",
  unreachable: "The proxy cannot be reached",
  waiting: "Next try",
  clock_offset: "This machine's clock differs from the service's; using the service's time",
  refreshed: "The session was refreshed",
  refresh_failed: "The session could not be refreshed",
  reloaded: "The agent's files have changed; they were read again",
  received: "Message received",
  probed: "A peer has tested the delivery",
  repeated: "Message received again; it is already stored",
  proof_refused: "Message refused: it is not what a peer signed",
  peer_key_changed: "The registry has signed another key for a peer; its messages are refused",
  contact_listed: "A new contact: an agent that did not prove a ticket of yours",
  memory_lost: "The store is new; older messages are refused, because one of them may have been handed over before",
  registry_unavailable: "Messages wait at the proxy, because their senders cannot be checked now",
  clock_offset_refused: "The service's time is more than a day off; it is not used",
  inbox_full: "Message refused: the inbox is full",
  store_failed: "The store could not be written",
  handed_over: "Message handed over",
  task_ended: "The runtime's task for a message has ended",
  handover_failed: "The runtime did not accept a message",
  dead_letter: "Message moved to the dead-letter list",
  runtime_up: "The agent runtime is reachable",
  runtime_down: "The agent runtime is not reachable",
  receipt_sent: "Receipt sent",
  receipt_failed: "A receipt could not be sent; it is kept",
  receipt_refused: "A receipt was rejected permanently",
  receipt_invalid: "A receipt is not what the peer signed; the proxy's word is not taken for it",
  sent: "Message sent",
  queued: "Message queued: the proxy keeps it until the recipient connects",
  not_taken: "Message sent, but the recipient's connector did not accept it",
  not_sent: "Message not sent: the proxy refused it",
  reply_too_large: "The runtime's answer is too large; no reply is sent",
  reply_invalid: "The runtime's answer is not a payload that peers can read; no reply is sent",
  reply_lost: "The runtime's answer broke off; no reply is sent",
  kept: "Message kept; it is sent again",
  kept_ended: "A kept message was not sent",
  reply_failed: "A reply could not be sent; it is kept",
  reply_refused: "A reply was rejected permanently",
  loop_guard: "Message not sent: the loop guard stopped it",
  paired: "Paired",
  pair_ended: "The pair with a peer has ended",
  revoked: "The agent is no longer authorised",
  pair_ticket: "Pairing started",
  pair_waits: "A pairing is not finished; it is tried again",
  pair_failed: "A pairing has failed; ask for another ticket",
  pair_half_removed: "The pair with an agent of another server has ended",
  exec_failed: "The program of --exec failed",
  defect: "An unexpected failure; the connector continues",
  peers_failed: "The peers could not be read",
} as const;
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
