/**
 * Stops agents that answer each other without an end (D-113). Ordinary work is not limited, because a message that was
 * answered no longer counts, and a thread is limited only after its first 32 automatic replies. Only what this agent
 * sends is counted, so no peer and no proxy can switch the guard off. The counts are in memory; the time is a
 * parameter.
 */
import { BoundedMap } from "../../shared/bounded_map.ts";

/**
 * Bound for the automatic messages of one thread, and for messages to one peer that it has not answered. Each agent
 * counts its own, so with a bound over 33, three agents that write in a ring would send over 100 messages before they
 * stop. With a bound under 32, a model could not ask 32 questions at once.
 */
export const LOOP_MESSAGES = 32;
/**
 * How long a message counts. With only some minutes, a ring of models would never reach the bound, because a model
 * takes a minute or more for a turn. Without an end, a model could never again write to a peer that does not answer.
 */
export const LOOP_WINDOW_MS = 60 * 60_000;
/** How many peers are remembered, those with the latest messages. Without a bound, many peers would fill the memory. */
export const LOOP_PEERS = 1_000;

/** Messages to one peer: their times by request ID, milliseconds since the Unix epoch, oldest first. */
interface Sent {
  times: Map<string, number>;
  /** How many messages the agent had received when the last one was counted. */
  received: number;
}

export class LoopGuard {
  /** Messages of a model that their peer has not answered. */
  readonly #asked = new BoundedMap<string, Sent>(LOOP_PEERS);
  /** Automatic messages that are not replies. */
  readonly #passedOn = new BoundedMap<string, Sent>(LOOP_PEERS);
  #received = 0;
  refusals = 0;

  /**
   * Returns how many milliseconds an automatic reply must wait; 0: it may be sent now. A wait counts as a refusal.
   *
   * @param before time of the automatic message `LOOP_MESSAGES` earlier in its thread; `null`: none
   */
  automaticReply(before: number | null, now: number): number {
    return before === null ? 0 : this.#refusedFor(before + LOOP_WINDOW_MS - now);
  }

  /**
   * Counts an automatic message that is not a reply. Returns 0 when it may be sent, else the milliseconds to wait. If
   * the agent has received nothing since the last one, the message continues no loop, so it is allowed and not counted:
   * a program may announce as much as it wants.
   */
  automaticMessage(peer: string, requestId: string, now: number): number {
    if (this.#passedOn.get(peer)?.received === this.#received) return 0;
    return this.#count(this.#passedOn, peer, requestId, now);
  }

  /** Counts a message of a model and returns 0 when it may be sent, else only returns the milliseconds to wait. */
  modelMessage(peer: string, requestId: string, now: number): number {
    return this.#count(this.#asked, peer, requestId, now);
  }

  /**
   * Records a message from a peer. A reply answers its question. Any other message answers all questions, because
   * models also write to each other without naming what they answer.
   */
  received(peer: string, inReplyTo: string | null): void {
    this.#received++;
    if (inReplyTo === null || !this.notSent(peer, inReplyTo)) this.#asked.delete(peer);
  }

  /**
   * Removes a message of a model, because it was answered, or did not reach the peer. Returns false when it was not
   * counted.
   */
  notSent(peer: string, requestId: string): boolean {
    return this.#asked.get(peer)?.times.delete(requestId) ?? false;
  }

  #count(counts: BoundedMap<string, Sent>, peer: string, requestId: string, now: number): number {
    const known = counts.get(peer)?.times ?? new Map<string, number>();
    // A time in the future comes from a clock that was set back, so it does not count.
    const times = new Map([...known].filter(([, at]) => at <= now && now - at < LOOP_WINDOW_MS));
    const [oldest = now] = times.values();
    if (times.size >= LOOP_MESSAGES) return this.#refusedFor(oldest + LOOP_WINDOW_MS - now);
    counts.set(peer, { times: times.set(requestId, now), received: this.#received });
    return 0;
  }

  /**
   * Counts a refusal when there is a wait. A wait beyond the window is ignored, because it comes from a clock that was
   * set back.
   */
  #refusedFor(wait: number): number {
    if (wait <= 0 || wait > LOOP_WINDOW_MS) return 0;
    this.refusals++;
    return wait;
  }
}
