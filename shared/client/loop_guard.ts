/**
 * Stops loops of agents that answer each other (D-113): bounds automatic replies and messages of a model. It counts what
 * this agent sends, so no peer and no proxy can switch it off. In memory; the time is a parameter.
 */
import { BoundedMap } from "../bounded_map.ts";
import { CLIENT_LIMITS as LIMIT } from "./limits.ts";

/** Messages in a sliding window, milliseconds. */
interface Window {
  messages: number;
  ms: number;
}

const AUTO: Window = { messages: LIMIT.autoReplies, ms: LIMIT.autoReplyWindowMs };
const MODEL: Window = { messages: LIMIT.modelMessages, ms: LIMIT.modelWindowMs };
const MODEL_TO_PEER: Window = { messages: LIMIT.modelPeerMessages, ms: LIMIT.modelPeerWindowMs };

interface Entry {
  /** Times of the counted messages, milliseconds since the Unix epoch, at most `messages` of the window. */
  times: number[];
  /** End of the pause; 0: none. */
  until: number;
}

export class LoopGuard {
  /** The entry that was changed least recently is removed first. */
  readonly #entries = new BoundedMap<string, Entry>(LIMIT.loopGuardEntries);
  #refusals = 0;

  /** Messages that the guard has refused. */
  get refusals(): number {
    return this.#refusals;
  }

  /** Counts an automatic reply. Returns 0 when it may be sent, else the milliseconds to wait; then it is not counted. */
  automaticReply(peer: string, conversationId: string | null, now: number): number {
    const key = `auto ${peer} ${conversationId ?? ""}`;
    const { times, until } = this.#entry(key, AUTO, now);
    // A pause of more than its length comes from a clock that was set back.
    const pause = until - now;
    if (pause > 0 && pause <= LIMIT.autoReplyPauseMs) return this.#refuse(pause);
    times.push(now);
    const isFull = times.length >= AUTO.messages;
    this.#entries.set(key, isFull ? { times: [], until: now + LIMIT.autoReplyPauseMs } : { times, until: 0 });
    return 0;
  }

  /** Counts a message of a model. Returns 0 when it may be sent, else the milliseconds to wait; then it is not counted. */
  modelMessage(peer: string, conversationId: string | null, now: number): number {
    const counted = [
      { key: modelKey(peer), window: MODEL_TO_PEER },
      { key: `${modelKey(peer)} ${conversationId ?? ""}`, window: MODEL },
    ].map(({ key, window }) => ({ key, window, times: this.#entry(key, window, now).times }));
    const wait = Math.max(...counted.map(({ times, window }) => waitFor(times, window, now)));
    if (wait > 0) return this.#refuse(wait);
    for (const { key, times } of counted) this.#entries.set(key, { times: [...times, now], until: 0 });
    return 0;
  }

  /** Records a message from a peer: a model that is answered may send again. */
  received(peer: string): void {
    this.#entries.delete(modelKey(peer));
  }

  /** Counts a refusal for another reason: an automatic reply to an automatic message. */
  refuse(): void {
    this.#refusals++;
  }

  #refuse(wait: number): number {
    this.#refusals++;
    return wait;
  }

  #entry(key: string, { ms }: Window, now: number): Entry {
    const { times, until } = this.#entries.get(key) ?? { times: [], until: 0 };
    return { times: times.filter((time) => time <= now && now - time < ms), until };
  }
}

function modelKey(peer: string): string {
  return `model ${peer}`;
}

/** Milliseconds until the window has room. */
function waitFor(times: readonly number[], { messages, ms }: Window, now: number): number {
  const oldest = times[times.length - messages];
  return oldest === undefined ? 0 : oldest + ms - now;
}
