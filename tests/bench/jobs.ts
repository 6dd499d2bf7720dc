/**
 * What a load process can be asked to do: the messages between the bench and `load.ts`, one line of JSON each way. Types
 * and nothing else, so that both sides mean the same.
 */

/** Indexes of two agents: who sends, who receives. */
export type Pair = [sender: number, recipient: number];

/** How long something took, and what it cost the load process. */
export interface Timed {
  seconds: number;
  /** CPU time of the load process, seconds. */
  cpuSeconds: number;
}

/** Requests to be written ahead, so that sending them costs little. */
export type Plan =
  | {
    kind: "messages";
    proxyUrl: string;
    pairs: Pair[];
    count: number;
    /** Size of a body. */
    bodyBytes: number;
    /** The recipient must see the sender's verified identity. */
    identity: boolean;
    /** Sign wrongly: every one must be refused. */
    spoil?: boolean;
    /** `Prefer: respond-async`: the answer says `queued`. */
    queue?: boolean;
  }
  | { kind: "refreshes"; registryUrl: string; forwarded: boolean }
  | { kind: "validations"; registryUrl: string; count: number; service: { id: string; secret: string } }
  | {
    kind: "gets";
    url: string;
    count: number;
    /** Least size of a body. */
    bytes: number;
    /** Headers of every request. */
    headers?: Record<string, string>;
  };

/** A plan of one kind. */
export type PlanOf<K extends Plan["kind"]> = Extract<Plan, { kind: K }>;

/** How the requests are sent. */
export interface RunAsk {
  /** Connections; at most one request is under way on each. */
  concurrency: number;
  /** No new request after so many seconds. */
  seconds: number;
  /** Requests a second, evenly; as fast as answers come when left out. */
  rate?: number;
  /** Send the written requests again and again, until the time is over. */
  repeat?: boolean;
  /** Fail on the first answer that is not as planned, and count messages at their recipients. */
  strict: boolean;
}

/** What came of it. Times are milliseconds. */
export interface RunAnswer extends Timed {
  sent: number;
  /** Answers as planned. */
  good: number;
  /** Answers by status; `broken` for a connection that ended. */
  statuses: Record<string, number>;
  p50: number;
  p99: number;
  max: number;
}

/** Every job: what it is told, and what it answers. */
export interface Jobs {
  /** Makes up agents with one key, for the floor, which registers nobody. */
  invent: { ask: { count: number }; answer: { publicKey: string; aitSha256: string } };
  /** Registers agents. Each API key registers as many as its limit allows in a minute. */
  register: { ask: { registryUrl: string; apiKeys: string[]; count: number }; answer: Timed & { ids: string[] } };
  pair: { ask: { proxyUrl: string; pairs: Pair[] }; answer: null };
  /** Opens a socket for each agent. A stalled one never reads. */
  connect: { ask: { proxyUrl: string; agents: number[]; stalled?: boolean }; answer: Timed };
  /** Lets stalled sockets read; gives with which codes all sockets that are closed by then were closed. */
  resume: { ask: { waitMs: number }; answer: { closed: Record<string, number> } };
  prepare: { ask: Plan; answer: { count: number } };
  run: { ask: RunAsk; answer: RunAnswer };
  /** Waits until every prepared message has arrived. */
  collect: { ask: { waitMs: number }; answer: Timed & { arrived: number } };
}

export type JobName = keyof Jobs;

/** A line to the load process. */
export type JobLine = { [N in JobName]: { job: N; ask: Jobs[N]["ask"] } }[JobName];

/** A line from it. */
export type AnswerLine = { answer: unknown } | { failed: string };

/** Agents that one API key may register within a minute: two requests each, of 600. */
export const AGENTS_PER_KEY = 290;
