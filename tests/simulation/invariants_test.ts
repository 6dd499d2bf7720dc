/** Every invariant can fail: a manipulated log or store is distinguished from a correct one. */
import { assert, assertEquals } from "@std/assert";
import type { Event, Logged } from "./events.ts";
import { lineOf } from "./events.ts";
import { INVARIANTS, type Run } from "./invariants.ts";
import { Simulation, violations } from "./simulation.ts";

const LIMIT = { requests: 2, windowMs: 1000 };

/** An event, with a step and a time when they matter. */
type Said = Event & { step?: number; at?: number };

function runOf(events: readonly Said[], more: Partial<Run> = {}): Run {
  const log = events.map((event, i): Logged => ({ step: i, at: 0, ...event }));
  return { log, limit: LIMIT, secrets: [], texts: [], ...more };
}

const used = (thing: string, by: string): Said => ({ kind: "used", thing, by });
const refreshed = (presented: number, issued: number, recovery = false): Said => ({
  kind: "refreshed",
  session: "A1 session 1",
  presented,
  issued,
  recovery,
});
const revoked = (credential: string): Said => ({ kind: "revoked", credential });
const started = (serving: number): Said => ({ kind: "started", serving, call: "", instance: "X1" });
const accepted = (serving: number, area: "message" | "pairing", at = 0): Said => ({
  kind: "accepted",
  serving,
  area,
  credentials: ["A1 ait 1", "A1 session 1"],
  at,
});
const between = { from: "A1", to: "A2" };
const sent = (message: string): Said => ({ kind: "sent", serving: 1, message, ...between });
const taken = (message: string, as: "delivered" | "queued" | "refused"): Said => ({
  kind: "taken",
  serving: 1,
  message,
  as,
  ...between,
});
const frame = (message: string): Said => ({ kind: "frame", message, socket: "S1", ...between });
const acked = (message: string): Said => ({ kind: "acked", message, accepted: true });
const paired: Said = { kind: "paired", agents: ["A1", "A2"] };
const unpaired: Said = { kind: "unpaired", agents: ["A2", "A1"] };
const counted = (startedAt: number): Said => ({ kind: "counted", agent: "A1", startedAt });
const clock = (skewed: boolean): Said => ({ kind: "clock", what: "", skewed });
const listed = (seq: number, ...aits: string[]): Said => ({ kind: "listed", seq, aits });
const crashed: Said = { kind: "crashed", instance: "X1" };

interface Case {
  invariant: string;
  promise: string;
  holds: Run[];
  breaks: Run[];
}

const CASES: Case[] = [{
  invariant: "I1",
  promise: "a single-use item succeeds once",
  holds: [
    runOf([used("invite I1", "request 1"), used("invite I2", "request 2")]),
    // A ticket gives its confirmer the same answer again.
    runOf([used("ticket T1", "A2"), used("ticket T1", "A2")]),
  ],
  breaks: [
    runOf([used("invite I1", "request 1"), used("invite I1", "request 2")]),
    runOf([used("nonce 1", "request 1"), used("nonce 1", "request 9")]),
    runOf([used("ticket T1", "A2"), used("ticket T1", "A3")]),
  ],
}, {
  invariant: "I2",
  promise: "one refresh generation is valid",
  holds: [
    runOf([refreshed(1, 2), refreshed(2, 3)]),
    runOf([refreshed(1, 2), refreshed(1, 3, true), refreshed(1, 4, true), refreshed(4, 5)]),
  ],
  breaks: [
    runOf([refreshed(1, 2), refreshed(1, 3)]),
    runOf([refreshed(1, 2), refreshed(2, 3), refreshed(1, 4, true)]),
    runOf([refreshed(1, 2), refreshed(1, 3, true), refreshed(2, 4)]),
  ],
}, {
  invariant: "I3",
  promise: "no request is accepted after the bound of a revocation",
  holds: [
    runOf([started(1), revoked("A1 session 1"), accepted(1, "message")]),
    runOf([revoked("A1 ait 1"), started(1), accepted(1, "pairing", 899_000)]),
    runOf([revoked("A1 ait 2"), started(1), accepted(1, "message")]),
  ],
  breaks: [
    runOf([revoked("A1 session 1"), started(1), accepted(1, "message")]),
    runOf([revoked("A1 ait 1"), started(1), accepted(1, "pairing", 900_000)]),
  ],
}, {
  invariant: "I4",
  promise: "delivered means acknowledged, once",
  holds: [
    runOf([sent("M1"), frame("M1"), acked("M1"), taken("M1", "delivered")]),
    // The process crashes before the answer is recorded.
    runOf([
      sent("M1"),
      frame("M1"),
      acked("M1"),
      { ...taken("M1", "delivered"), step: 4 },
      { ...crashed, step: 4 },
      frame("M1"),
    ]),
  ],
  breaks: [
    runOf([sent("M1"), frame("M1"), taken("M1", "delivered")]),
    runOf([sent("M1"), frame("M1"), acked("M1"), taken("M1", "delivered"), frame("M1")]),
    runOf([sent("M1"), frame("M1"), acked("M1"), taken("M1", "refused")]),
  ],
}, {
  invariant: "I5",
  promise: "frames go only to peers",
  holds: [runOf([paired, frame("M1"), unpaired, paired, frame("M2")])],
  breaks: [runOf([frame("M1")]), runOf([paired, unpaired, frame("M1")])],
}, {
  invariant: "I6",
  promise: "no window exceeds the limit",
  holds: [
    runOf([counted(0), counted(1), counted(1000)]),
    runOf([counted(0), counted(1), clock(false), counted(2)]),
    runOf([clock(true), counted(0), counted(1), counted(2)]),
  ],
  breaks: [
    runOf([counted(0), counted(1), counted(999)]),
    runOf([counted(500), counted(1200), counted(0), counted(1300)]),
  ],
}, {
  invariant: "I8",
  promise: "the revocation list loses nothing",
  holds: [runOf([revoked("A1 ait 1"), listed(1, "A1 ait 1"), revoked("A1 session 1"), listed(1, "A1 ait 1")])],
  breaks: [
    runOf([revoked("A1 ait 1"), listed(1)]),
    runOf([listed(1, "A1 ait 1"), listed(2, "A2 ait 1")]),
    runOf([listed(2, "A1 ait 1"), listed(1, "A1 ait 1")]),
  ],
}, {
  invariant: "I9",
  promise: "first in, first out",
  holds: [
    runOf([
      sent("M1"),
      taken("M1", "queued"),
      sent("M2"),
      taken("M2", "queued"),
      frame("M1"),
      frame("M2"),
      frame("M1"),
    ]),
    // Sent at the same time: either can be first.
    runOf([sent("M1"), sent("M2"), taken("M1", "queued"), frame("M2"), frame("M1")]),
  ],
  breaks: [
    runOf([sent("M1"), taken("M1", "queued"), sent("M2"), frame("M2"), frame("M1")]),
  ],
}, {
  invariant: "I10",
  promise: "no secret is stored or logged",
  holds: [runOf([], { secrets: ["svc_pat_secret"], texts: ['{"digest":"5ec4e7"}'] })],
  breaks: [runOf([], { secrets: ["svc_pat_secret"], texts: ["no secret here", '{"key":"svc_pat_secret"}'] })],
}];

for (const { invariant, promise, holds, breaks } of CASES) {
  Deno.test(`${invariant}, ${promise}: what is right passes, what is doctored is reported`, () => {
    const problemsOf = INVARIANTS[invariant];
    assert(problemsOf);
    for (const run of holds) assertEquals(problemsOf(run), [], run.log.map(lineOf).join("\n"));
    for (const run of breaks) assert(problemsOf(run).length > 0, run.log.map(lineOf).join("\n"));
  });
}

Deno.test("every invariant is shown to break", () => {
  assertEquals(CASES.map(({ invariant }) => invariant), Object.keys(INVARIANTS));
});

Deno.test("a real run with one doctored event is reported, and without it is not", async () => {
  const run = await Simulation.run(1);
  assertEquals(violations(run), []);
  const [stray] = runOf([frame("M999")]).log;
  assert(stray);
  assertEquals(violations({ ...run, log: [stray, ...run.log] }).map(({ invariant }) => invariant), ["I5"]);
  const [secret = ""] = run.secrets;
  const kept = { ...run, texts: [...run.texts, `{ value: "${secret}" }`] };
  assertEquals(violations(kept).map(({ invariant }) => invariant), ["I10"]);
});

Deno.test("the same seed gives the same log, another seed another", async () => {
  const logOf = async (seed: number) => (await Simulation.run(seed)).log.map(lineOf).join("\n");
  const first = await logOf(3);
  assert(await logOf(3) === first);
  assert(await logOf(26) !== first);
});
