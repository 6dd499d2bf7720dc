/**
 * What a simulation writes down: events in order, by names that a seed fixes. No id, no token, no moment of the real
 * clock is in it, so that the same seed gives the same log, word for word.
 */

/** What a call was about, for the bound within which a revocation must hold. */
export type Area = "message" | "connect" | "receipt" | "refresh" | "pairing";

export type Event =
  /** A request reached an instance; `serving` counts these. */
  | { kind: "started"; serving: number; call: string; instance: string }
  | { kind: "answered"; serving: number; status: number; code: string }
  /** A request or its answer did not arrive, or not yet. */
  | { kind: "lost"; call: string; how: string }
  /** A single-use thing was used up, by something that is told apart. */
  | { kind: "used"; thing: string; by: string }
  /** Generations count the refresh tokens of a session, as they are issued. */
  | { kind: "refreshed"; session: string; presented: number; issued: number; recovery: boolean }
  /** The registry has said that a credential (an AIT, a session) is revoked. */
  | { kind: "revoked"; credential: string }
  | { kind: "accepted"; serving: number; area: Area; credentials: readonly string[] }
  /** A request that counts in its agent's window; `startedAt` as `at`. */
  | { kind: "counted"; agent: string; startedAt: number }
  | { kind: "sent"; serving: number; message: string; from: string; to: string }
  /** 202. */
  | {
    kind: "taken";
    serving: number;
    message: string;
    from: string;
    to: string;
    as: "delivered" | "refused" | "queued";
  }
  | { kind: "frame"; message: string; from: string; to: string; socket: string }
  /** The proxy waited for this ack. */
  | { kind: "acked"; message: string; accepted: boolean }
  /** From now on two agents may be a pair. */
  | { kind: "paired"; agents: readonly [string, string] }
  /** From now on they are none. */
  | { kind: "unpaired"; agents: readonly [string, string] }
  /** The revocation list as it was published. */
  | { kind: "listed"; seq: number; aits: readonly string[] }
  /** A clock was set; `skewed` while the instances do not agree. */
  | { kind: "clock"; what: string; skewed: boolean }
  | { kind: "crashed"; instance: string }
  | { kind: "up"; instance: string }
  /** What else happened; no invariant reads it. */
  | { kind: "note"; text: string };

/** An event with its step, and the time since the start in milliseconds as it passed, whatever clocks said. */
export type Logged = Event & { step: number; at: number };

/** An event as a line. */
export function lineOf({ step, at, kind, ...rest }: Logged): string {
  const members = Object.entries(rest).map(([name, value]) =>
    `${name}=${Array.isArray(value) ? value.join("+") : value}`
  );
  return `${String(step).padStart(3)} ${(at / 1000).toFixed(1).padStart(7)}s ${kind} ${members.join(" ")}`;
}
