/** What a person is told of a connector's events: what needs attention, without IDs, codes and milliseconds. */
import type { EventFields } from "../../link/link_events.ts";
import { type EventName, EVENTS } from "../events.ts";
import { formatDuration } from "../status.ts";

/** Events that need no attention. */
const QUIET: ReadonlySet<EventName> = new Set([
  ...[
    "started",
    "stopping",
    "waiting",
    "refreshed",
    "reloaded",
    "received",
    "probed",
    "kept",
    "repeated",
    "handed_over",
  ] as const,
  ...["task_ended", "receipt_sent", "sent", "queued", "not_taken", "not_sent", "pair_ticket", "runtime_up"] as const,
]);

export class CalmTexts {
  #lostAt: number | null = null;
  #wasOnline = false;

  of(name: EventName, fields: EventFields, now: number): string | null {
    const { why, peer, agentName, humanName, alias } = fields;
    switch (name) {
      case "connected":
        return this.#connected(now);
      case "disconnected":
      case "unreachable":
        return this.#lost(now);
      case "paired":
        return `Paired with ${agentName} of ${humanName}.${alias === undefined ? "" : ` It is called ${alias} here.`}`;
    }
    if (QUIET.has(name)) return null;
    const about = typeof peer === "string" ? ` (${peer})` : "";
    return `${EVENTS[name]}${about}${typeof why === "string" ? `: ${why}` : "."}`;
  }

  #connected(now: number): string | null {
    const text = this.#lostAt === null ? null : `Online again after ${formatDuration(now - this.#lostAt)}.`;
    this.#lostAt = null;
    this.#wasOnline = true;
    return text;
  }

  #lost(now: number): string | null {
    if (this.#lostAt !== null) return null;
    this.#lostAt = now;
    return this.#wasOnline ? "The link is lost. Messages wait." : "The server cannot be reached. Messages wait here.";
  }
}

/** The sentence for an event that needs no attention, for the view of all events. */
export function quietText(name: EventName, { peer = "a peer", why, ms, status }: EventFields): string {
  const end = typeof why === "string" ? `: ${why}` : ".";
  switch (name) {
    case "waiting":
      return `Next try in ${formatDuration(Number(ms))}.`;
    case "received":
      return `A message of ${peer} arrived.`;
    case "repeated":
      return `A message of ${peer} arrived again; it is stored already.`;
    case "handed_over":
      return `The runtime has taken a message of ${peer}.`;
    case "sent":
      return `A message to ${peer} has arrived.`;
    case "queued":
      return `A message to ${peer} waits at the server.`;
    case "not_taken":
      return `${peer} did not accept a message${end}`;
    case "not_sent":
      return `A message to ${peer} was not sent${end}`;
    case "receipt_sent":
      return `${peer} was told that a message is ${status === "dead_lettered" ? "given up" : "read"}.`;
    case "probed":
      return `${peer} has tested the delivery.`;
    default:
      return `${EVENTS[name]}${end}`;
  }
}
