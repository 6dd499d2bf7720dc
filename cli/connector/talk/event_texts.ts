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
    "repeated",
    "handed_over",
  ] as const,
  ...["task_ended", "receipt_sent", "sent", "queued", "not_taken", "not_sent", "pair_ticket", "runtime_up"] as const,
]);

export class CalmTexts {
  #lostAt: number | null = null;
  #wasOnline = false;

  /** The sentence for an event; `null` when it needs none. `now` in milliseconds. */
  of(name: EventName, fields: EventFields, now: number): string | null {
    const { why, peer, agentName, humanName } = fields;
    switch (name) {
      case "connected":
        return this.#connected(now);
      case "disconnected":
      case "unreachable":
        return this.#lost(now);
      case "paired":
        return `Paired with ${agentName} of ${humanName}.`;
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

/** An event with all its fields that a person can use, for the view of all events. */
export function fullText(name: EventName, fields: EventFields): string {
  const details = Object.entries(fields)
    .filter(([key, value]) => value !== null && !HIDDEN_FIELDS.has(key) && !String(value).startsWith("did:"))
    .map(([key, value]) => `${key} ${value}`).join(", ");
  return `${EVENTS[name]}${details === "" ? "" : ` (${details})`}`;
}

const HIDDEN_FIELDS: ReadonlySet<string> = new Set(["requestId", "ms", "nextInMs", "status", "code"]);
