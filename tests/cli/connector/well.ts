/** The status of a connector that works. */
import type { Status } from "../../../cli/connector/status.ts";

export const WELL: Status = {
  agent: { name: "alpha", did: "did" },
  version: "0",
  pid: 1,
  startedAt: "",
  now: "",
  proxy: { url: "http://127.0.0.1:1", origin: "http://127.0.0.1:1" },
  connection: { state: "connected", since: "", nextTryAt: null, problem: null, heartbeatMs: null, heartbeatAt: null },
  inbox: { waiting: 0, oldestAt: null, bytes: 0, problem: null },
  deadLetters: 0,
  receiptsWaiting: 0,
  loopGuards: 0,
  refused: 0,
  runtime: {
    platform: "generic",
    url: null,
    source: null,
    replies: false,
    reachable: true,
    checkedAt: null,
    problem: null,
  },
  session: { accessExpiresAt: "", identityExpiresAt: "", problem: null },
  clockOffsetMs: 0,
  servers: [],
  otherKeys: [],
  api: null,
};
