/** What a person is told of a connector's events: what needs attention, without IDs, codes and milliseconds. */
import type { EventFields } from "../../link/link_events.ts";
import { type EventName, EVENTS } from "../events.ts";
import { formatDuration } from "../../terminal/times.ts";

/**
 * The events that need no attention. Each has its sentence for the view of all events, or `null` for that of `EVENTS`.
 */
const QUIET: { readonly [name in EventName]?: ((fields: EventFields & { end: string }) => string) | null } = {
  started: null,
  stopping: null,
  waiting: ({ ms }) => `Next try in ${formatDuration(Number(ms))}.`,
  refreshed: null,
  reloaded: null,
  received: ({ peer }) => `A message of ${peer} arrived.`,
  probed: ({ peer }) => `${peer} has tested the delivery.`,
  kept: null,
  repeated: ({ peer }) => `A message of ${peer} arrived again; it is stored already.`,
  handed_over: ({ peer }) => `The runtime has taken a message of ${peer}.`,
  task_ended: null,
  receipt_sent: ({ peer, status }) =>
    `${peer} was told that a message is ${status === "dead_lettered" ? "given up" : "read"}.`,
  sent: ({ peer }) => `A message to ${peer} has arrived.`,
  queued: ({ peer }) => `A message to ${peer} waits at the server.`,
  not_taken: ({ peer, end }) => `${peer} did not accept a message${end}`,
  not_sent: ({ peer, end }) => `A message to ${peer} was not sent${end}`,
  pair_ticket: null,
  runtime_up: null,
};

/** Events of tries that go on until the cause has ended. */
const OF_TRIES: ReadonlySet<EventName> = new Set([
  "refused",
  "registry_unavailable",
  "refresh_failed",
  "clock_offset_refused",
]);

/** When no message came for 1 s, all that waited at the server has arrived. The count ends after 30 s in any case. */
const ARRIVED_MS = 1_000, COUNTED_MS = 30_000;
/** With more senders the line gives their number in place of their names. */
const PEERS_NAMED = 3;

export class CalmTexts {
  #lostAt: number | null = null;
  #wasOnline = false;
  /** What was told of each kind of try since the link was last there. */
  readonly #tries = new Map<EventName, string>();
  /** Since when the link is back, and the messages that waited, counted by peer. */
  #back: { at: number; heardAt: number; from: Map<string, number> } | null = null;

  of(name: EventName, fields: EventFields, now: number): string | null {
    const { peer, agentName, humanName, alias } = fields, back = this.#back;
    switch (name) {
      case "connected":
        this.#back = { at: now, heardAt: now, from: new Map() };
        this.#wasOnline = true;
        this.#tries.clear();
        return null;
      case "received": {
        const from = typeof peer === "string" ? peer : "another agent";
        back?.from.set(from, (back.from.get(from) ?? 0) + 1);
        if (back !== null) back.heardAt = now;
        return null;
      }
      case "disconnected":
      case "unreachable":
        return this.#lost(now);
      case "paired":
        return `Paired with ${agentName} of ${humanName}.${alias === undefined ? "" : ` It is called ${alias} here.`}`;
      case "pair_ended":
        return `The pair with ${peer} of ${humanName} has ended.`;
    }
    if (QUIET[name] !== undefined) return null;
    const about = typeof peer === "string" ? ` (${peer})` : "";
    const text = EVENTS[name] + about + endOf(fields);
    if (!OF_TRIES.has(name)) return text;
    // Told once, because the same sentence at each try of a night would push the messages off the screen.
    const isKnown = this.#tries.get(name) === text;
    this.#tries.set(name, text);
    return isKnown ? null : text;
  }

  /** The sentence about a link that is back, once the messages that waited have arrived; `null` before. */
  due(now: number): string | null {
    const back = this.#back;
    if (back === null || this.#lostAt === null) return null;
    // A time in the future comes from a clock that was set back, and would delay the sentence until then.
    if (Math.abs(now - back.heardAt) < ARRIVED_MS && Math.abs(now - back.at) < COUNTED_MS) return null;
    const text = `Online again after ${formatDuration(back.at - this.#lostAt)}.${arrivedText(back.from)}`;
    this.#lostAt = this.#back = null;
    return text;
  }

  #lost(now: number): string | null {
    this.#back = null;
    if (this.#lostAt !== null) return null;
    this.#lostAt = now;
    return this.#wasOnline ? "The link is lost. Messages wait." : "The server cannot be reached. Messages wait here.";
  }
}

function arrivedText(from: ReadonlyMap<string, number>): string {
  if (from.size === 0) return "";
  const count = [...from.values()].reduce((sum, one) => sum + one, 0);
  const who = from.size > PEERS_NAMED ? `${from.size} peers` : new Intl.ListFormat("en-GB").format(from.keys());
  return ` ${count} ${count === 1 ? "message" : "messages"} of ${who} arrived meanwhile.`;
}

/** The sentence for an event that needs no attention, for the view of all events. */
export function quietText(name: EventName, fields: EventFields): string {
  const end = endOf(fields);
  return QUIET[name]?.({ peer: "a peer", ...fields, end }) ?? EVENTS[name] + end;
}

function endOf({ why }: EventFields): string {
  return typeof why === "string" ? `: ${why}` : ".";
}
