/**
 * The jobs of a load process: the messages between the bench and `load.ts`, one line of JSON each way. Types only, used
 * by both sides.
 */

/** Indexes of two agents: sender and recipient. */
export type Pair = [sender: number, recipient: number];

/** Duration and CPU time of a job. */
export interface Timed {
  seconds: number;
  /** CPU time of the load process, seconds. */
  cpuSeconds: number;
}

/** Requests that are built before the run, so that sending them costs little. */
export type Plan =
  | {
    kind: "messages";
    proxyUrl: string;
    pairs: Pair[];
    count: number;
    /** Size of a body, bytes. */
    bodyBytes: number;
    /** Each message must arrive with the sender's verified identity. */
    identity: boolean;
    /** Send without a signed context, as to a server from before D-140. */
    plainTarget?: boolean;
    /** Sign with a wrong key: every request must be refused. */
    spoil?: boolean;
  }
  | {
    kind: "gets";
    url: string;
    count: number;
    /** Minimum size of a body, bytes. */
    bytes: number;
    /** Headers of every request. */
    headers?: Record<string, string>;
  };

/** The plan of one kind. */
export type PlanOf<K extends Plan["kind"]> = Extract<Plan, { kind: K }>;

/** How the requests are sent. */
export interface RunAsk {
  /** Number of connections, with at most one request in progress on each. */
  concurrency: number;
  /** No new request starts after this time, seconds. */
  seconds: number;
  /** Requests per second at an even pace (default: each connection sends when it has its response). */
  rate?: number;
  /** Repeat the prepared requests until the time is over. */
  repeat?: boolean;
  /** Fail on the first unexpected response, and count messages at their recipients. */
  strict: boolean;
  /** Addresses over which the connections are spread (default: the one of the plan). */
  urls?: readonly string[];
}

/** The result of a run. Times are milliseconds. */
export interface RunAnswer extends Timed {
  sent: number;
  /** Number of expected responses. */
  good: number;
  /** Number of responses by status; `broken` counts connections that ended. */
  statuses: Record<string, number>;
  p50: number;
  p99: number;
  max: number;
}

/** Sockets that opened again. */
export interface Returned extends Timed {
  /** When each of them opened, milliseconds since the Unix epoch, ascending. */
  at: number[];
  /** Attempts that failed. */
  failures: number;
}

/** Request and result of every job. */
export interface Jobs {
  /** Creates agents with one key, for the floor, which has no registration. */
  invent: { ask: { count: number }; answer: { publicKey: string; aitSha256: string } };
  /** Registers agents. Each API key registers as many agents as its limit allows in a minute. */
  register: { ask: { registryUrl: string; apiKeys: string[]; count: number }; answer: Timed & { ids: string[] } };
  pair: { ask: { proxyUrl: string; pairs: Pair[] }; answer: null };
  /** Opens a socket for each agent. A stalled one never reads. */
  connect: { ask: { proxyUrl: string; agents: number[]; stalled?: boolean }; answer: Timed };
  /**
   * Opens a socket for each agent at the addresses in turn, and again after each end: with the waits of the client
   * library, at any other address after a failure.
   */
  keep: { ask: { proxyUrls: string[]; agents: number[] }; answer: Timed };
  /** Waits until `count` sockets have opened again since `keep`. */
  returned: { ask: { count: number; waitMs: number }; answer: Returned };
  /** Lets stalled sockets read. The result counts all closed sockets by close code. */
  resume: { ask: { waitMs: number }; answer: { closed: Record<string, number> } };
  prepare: { ask: Plan; answer: { count: number } };
  run: { ask: RunAsk; answer: RunAnswer };
}

export type JobName = keyof Jobs;

/** A line to the load process. */
export type JobLine = { [N in JobName]: { job: N; ask: Jobs[N]["ask"] } }[JobName];

/** A line from the load process. */
export type AnswerLine = { answer: unknown } | { failed: string };

/** Agents that one API key may register within a minute: two requests each, of 600. */
export const AGENTS_PER_KEY = 290;
