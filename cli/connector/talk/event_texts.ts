/** What a person is told of a connector's events: what needs attention, without IDs, codes and milliseconds. */
import { CLOSE } from "../../../shared/protocol/frames.ts";
import type { EventFields } from "../../link/link_events.ts";
import { type EventName, EVENTS, type EventText } from "../events.ts";
import { OPERATOR_RETRY_MS } from "../../../shared/client/refusals.ts";
import { formatDuration } from "../../terminal/times.ts";

/** The code of a service before its reason. It is left out here, because a person cannot act on it. */
const CODE = /^([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+): /;

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

const LOST = "The link is lost. Messages wait.";

export class CalmTexts {
  #lostAt: number | null = null;
  #wasOnline = false;
  /** What was told of each kind of try since the link was last there. */
  readonly #tries = new Map<EventName, string>();
  /** Whether the session was renewed since the link was last there. */
  #isRenewed = false;
  /** Since when the link is back, and the messages that waited, counted by peer. */
  #back: { at: number; heardAt: number; from: Map<string, number> } | null = null;

  of(name: EventName, fields: EventFields, now: number): string | null {
    const { peer, code } = fields, back = this.#back;
    switch (name) {
      case "connected":
        this.#back = { at: now, heardAt: now, from: new Map() };
        this.#wasOnline = true;
        this.#tries.clear();
        this.#isRenewed = false;
        return null;
      case "received": {
        const from = typeof peer === "string" ? peer : "another agent";
        back?.from.set(from, (back.from.get(from) ?? 0) + 1);
        if (back !== null) back.heardAt = now;
        return null;
      }
      case "disconnected":
        // The next try tells why. Of a deleted agent, no messages wait.
        return this.#lost(now, code === CLOSE.notAuthorised ? "The server has closed the link." : LOST);
      case "unreachable":
        return this.#lost(now, this.#wasOnline ? LOST : "The server cannot be reached. Messages wait here.");
      case "refused":
        // The session is renewed now. Only when that fails, or does not help, is there something to tell.
        if (this.#isRenewed || code !== "PROXY_AGENT_ACCESS_INVALID") break;
        this.#isRenewed = true;
        return null;
    }
    const told: EventText | { quiet: EventText } = EVENTS[name];
    if (typeof told === "object") return null;
    const why = typeof fields.why === "string" ? fields.why : "", reason = why.replace(CODE, "");
    const text = CODE.exec(why)?.[1] === "ACCOUNT_SUSPENDED"
      ? `${reason}. Trying every ${formatDuration(OPERATOR_RETRY_MS)}.`
      : textOf(told, why === "" ? fields : { ...fields, why: reason }, typeof peer === "string" ? ` (${peer})` : "");
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

  /** Returns `text` the first time. */
  #lost(now: number, text: string): string | null {
    this.#back = null;
    if (this.#lostAt !== null) return null;
    this.#lostAt = now;
    return text;
  }
}

function arrivedText(from: ReadonlyMap<string, number>): string {
  if (from.size === 0) return "";
  const count = [...from.values()].reduce((sum, one) => sum + one, 0);
  const who = from.size > PEERS_NAMED ? `${from.size} peers` : new Intl.ListFormat("en-GB").format(from.keys());
  return ` ${count} ${count === 1 ? "message" : "messages"} of ${who} arrived meanwhile.`;
}

/** The sentence for an event in the view of all events. */
export function quietText(name: EventName, fields: EventFields): string {
  const told: EventText | { quiet: EventText } = EVENTS[name];
  return textOf(typeof told === "object" ? told.quiet : told, { peer: "a peer", ...fields });
}

function textOf(text: EventText, fields: EventFields, about = ""): string {
  const end = typeof fields.why === "string" ? `: ${fields.why}` : ".";
  return typeof text === "string" ? text + about + end : text({ ...fields, end });
}
