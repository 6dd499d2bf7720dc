/**
 * The log of a simulation: events in order, with names that a seed fixes. It holds no ID, no token and no time of the
 * real clock, so that the same seed gives exactly the same log.
 */

/** The kind of a call, for the bound within which a revocation must hold. */
export type Area = "message" | "connect" | "receipt" | "refresh" | "pairing";

export type Event =
  /** A request reached an instance; `serving` counts these. */
  | { kind: "started"; serving: number; call: string; instance: string }
  | { kind: "answered"; serving: number; status: number; code: string }
  /** A request or its answer did not arrive, or not yet. */
  | { kind: "lost"; call: string; how: string }
  /** A single-use item was used by something with its own name. */
  | { kind: "used"; thing: string; by: string }
  /** Generations count the refresh tokens of a session in the order of issue. */
  | { kind: "refreshed"; session: string; presented: number; issued: number; recovery: boolean }
  /** The registry has answered that a credential (an AIT, a session) is revoked. */
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
  /** From now on they are not a pair. */
  | { kind: "unpaired"; agents: readonly [string, string] }
  /** The published revocation list. */
  | { kind: "listed"; seq: number; aits: readonly string[] }
  /** A clock was set. `skewed` while the clocks of the instances differ. */
  | { kind: "clock"; what: string; skewed: boolean }
  | { kind: "crashed"; instance: string }
  | { kind: "up"; instance: string }
  /** Another event, which no invariant reads. */
  | { kind: "note"; text: string };

/** An event with its step and the time since the start in milliseconds, independent of the clocks that were set. */
export type Logged = Event & { step: number; at: number };

/** Formats an event as a line. */
export function lineOf({ step, at, kind, ...rest }: Logged): string {
  const members = Object.entries(rest).map(([name, value]) =>
    `${name}=${Array.isArray(value) ? value.join("+") : value}`
  );
  return `${String(step).padStart(3)} ${(at / 1000).toFixed(1).padStart(7)}s ${kind} ${members.join(" ")}`;
}
