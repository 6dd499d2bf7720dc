/**
 * Size and duration of each row: one set for a usual run, one for `--quick`, one for `--full`. All sizes are here; rows
 * contain none.
 */

/** The sizes of a run. */
export interface Scale {
  /** Runs of each message figure; the median is the result. */
  trials: number;
  /** Longest trial, seconds, and time for work after the last response, milliseconds. */
  seconds: number;
  trailingMs: number;
  /** Most messages of one trial; they are signed before it and kept in memory. */
  messages: number;
  /** Messages before the measurement. */
  warmUp: number;
  /** Senders, each with its own recipient. */
  pairs: number;
  /** Senders of the two sides of a comparison of few and many. */
  fewSenders: number;
  manySenders: number;
  /** Messages in progress at the same time. */
  concurrency: readonly number[];
  /** Messages that are sent at once to one recipient. */
  burst: number;
  /** Most instances on one store over the network; 0: the row is left out. */
  instances: number;
  /** Agents of the reconnect storm; 0: the row is left out. */
  stormAgents: number;
  /** Commits of the bare store. */
  commits: number;
  /** Entries of the revocation list, and requests for it. */
  crlEntries: number;
  crlRequests: number;
  /** Trust changes before the cost of one is measured again. */
  trustChanges: number;
  /** Rebuilds of the list while another request waits. */
  rebuilds: number;
  /** Idle sockets: next to traffic, and for their memory. */
  idleBeside: number;
  idleSockets: number;
  /** Length of one phase of the overload rows, seconds. */
  overloadSeconds: number;
  /** Messages per second of the well-behaved agents. */
  pace: number;
  /** Requests with a bad proof per second. */
  badProofs: number;
  /** Messages of 256 KiB to a reader that has stopped, and the service's ack time-out, milliseconds. */
  bigMessages: number;
  ackTimeoutMs: number;
  /** Starts of a server, and of a program. */
  starts: number;
  /** Questions of one agent to another, one after the other. */
  asks: number;
  /** Agents and unexpired nonces in a filled store. */
  grownAgents: number;
  grownNonces: number;
  /** Length of the long run, seconds. */
  lastingSeconds: number;
  /** Duration of the run with expiring records, of one part, and of the stop after it, seconds; 0 skips the row. */
  expirySeconds: number;
  expiryPartSeconds: number;
  expiryStopSeconds: number;
  /** Messages per second of that run. */
  expiryPace: number;
  /** Time in which memory settles, seconds. */
  settle: number;
}

const usual: Scale = {
  trials: 3,
  seconds: 2,
  trailingMs: 100,
  messages: 20_000,
  warmUp: 1_000,
  pairs: 64,
  fewSenders: 10,
  manySenders: 1_000,
  concurrency: [1, 16, 64],
  burst: 1_000,
  instances: 2,
  stormAgents: 0,
  commits: 3_000,
  crlEntries: 10_000,
  crlRequests: 2_000,
  trustChanges: 20_000,
  rebuilds: 5,
  idleBeside: 2_000,
  idleSockets: 2_000,
  overloadSeconds: 5,
  pace: 100,
  badProofs: 1_000,
  bigMessages: 200,
  ackTimeoutMs: 10_000,
  starts: 7,
  asks: 900,
  grownAgents: 100_000,
  grownNonces: 600_000,
  lastingSeconds: 30,
  expirySeconds: 0,
  expiryPartSeconds: 15,
  expiryStopSeconds: 900,
  expiryPace: 500,
  settle: 3,
};

export const SCALES = {
  usual,
  quick: {
    ...usual,
    instances: 0,
    trials: 1,
    seconds: 0.1,
    trailingMs: 10,
    messages: 200,
    warmUp: 10,
    pairs: 4,
    fewSenders: 2,
    manySenders: 4,
    burst: 50,
    commits: 50,
    crlEntries: 200,
    crlRequests: 20,
    trustChanges: 500,
    rebuilds: 1,
    idleBeside: 10,
    idleSockets: 10,
    overloadSeconds: 0.2,
    badProofs: 200,
    bigMessages: 60,
    ackTimeoutMs: 3_000,
    starts: 1,
    asks: 5,
    grownAgents: 1_000,
    grownNonces: 1_000,
    lastingSeconds: 0.1,
    expirySeconds: 0.4,
    expiryPartSeconds: 0.1,
    expiryStopSeconds: 0.1,
    expiryPace: 50,
    settle: 0.1,
  },
  full: {
    ...usual,
    trials: 5,
    seconds: 4,
    messages: 50_000,
    instances: 4,
    stormAgents: 5_000,
    idleSockets: 10_000,
    overloadSeconds: 10,
    lastingSeconds: 600,
    asks: 1_000,
    expirySeconds: 1_500,
  },
} as const satisfies Record<string, Scale>;

/** The name of a scale. */
export type ScaleName = keyof typeof SCALES;
