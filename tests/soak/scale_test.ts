/**
 * The figures of `docs/scaling.md` about a million agents on a hundred instances are simulated here, from the unit
 * costs and the counted costs of that document. After a change,
 * `deno test --allow-read --allow-write tests/soak/scale_test.ts -- --write` writes the new rows.
 */
import { assert, assertEquals } from "@std/assert";
import { HANDSHAKE_MS } from "../../cli/link/link.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { CLAIM_WAIT_MS } from "../../shared/server/store/group_commit.ts";
import { docCells, docRows, SCALING_DOC, writeRows } from "../support/scaling_doc.ts";
import { simulateMessages } from "./scale_messages.ts";
import { END_MS, simulateReconnect } from "./scale_reconnect.ts";
import { simulateRevocations } from "./scale_revocations.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { Events, quantile, type UnitCosts } from "./scale_store.ts";

const doc = await Deno.readTextFile(SCALING_DOC);
const AGENTS = 1_000_000, INSTANCES = 100, REGIONS = 4, SEED = 1;

function unit(what: string): number {
  return Number(docCells(doc, "unit", what)[2]);
}

/** A number of the row of an operation with two instances: see the head of its table. */
function counted(what: string, column: "readCalls" | "commits"): number {
  return Number(docCells(doc, "two instances, denokv", what)[{ readCalls: 4, commits: 6 }[column]]);
}

function costsOf(roundTripMs: number, commitsInFlight: number): UnitCosts {
  return {
    roundTripMs,
    commitsInFlight,
    storeCommitMs: unit("commit, CPU of denokv, ms"),
    storeReadMs: unit("read, CPU of denokv, ms"),
    storeWriteMs: unit("commit, the thread of denokv that writes, ms"),
    messageMs: unit("message within an instance, CPU of instances, ms"),
    crossingMs: unit("message between instances, CPU of instances, ms"),
    connectMs: unit("connection, CPU of an instance, ms"),
    crlEntryMs: unit("entry of the revocation list, CPU of an instance, ms"),
    crlEntryBytes: unit("entry of the revocation list, bytes"),
    // The claim of the outcome has one check.
    messageChecks: Number(docCells(doc, "two with a link, denokv", "delivered by the other")[7]) - 1,
    checksPerCommit: LIMITS.commitChecksConnect,
  };
}

const whole = (n: number) => String(Math.round(n));
const rounded = (n: number | null, digits = 1) => n === null ? "never" : n.toFixed(digits);
const row = (...cells: string[]) => `| ${cells.join(" | ")} |`;
const inFlight = (n: number) => `${n} in flight`;

/** Compares the rows of the document with these, or writes them. */
async function sameInDoc(rows: string[], first: string): Promise<void> {
  if (Deno.args.includes("--write")) await writeRows(rows);
  assertEquals(docRows(await Deno.readTextFile(SCALING_DOC), first), rows);
}

Deno.test("a million agents that send a message a minute cost what docs/scaling.md says", async () => {
  const rows = [[1, 1], [10, 1], [10, 16], [60, 16]].map(([roundTripMs = 0, commits = 0]) => {
    const load = { agents: AGENTS, instances: INSTANCES, perMinute: 1, ms: 600 + 100 * roundTripMs, seed: SEED };
    const figures = simulateMessages(load, costsOf(roundTripMs, commits));
    const waits = figures.isStable ? [rounded(figures.p50Ms, 0), rounded(figures.p99Ms, 0)] : ["grows", "grows"];
    return row(
      "messages",
      `${roundTripMs} ms, ${inFlight(commits)}`,
      whole(figures.messagesPerSecond),
      rounded(figures.crossing, 2),
      whole(figures.commitsPerSecond),
      whole(figures.readsPerSecond),
      whole(figures.storeCores),
      rounded(figures.storeWriters),
      rounded(figures.instanceCore, 2),
      ...waits,
    );
  });
  await sameInDoc(rows, "messages");
});

Deno.test("revocations reach a hundred instances in the time of docs/scaling.md", async () => {
  const rows = [[1 / 60, 500], [1, 10_000], [1, 50_000], [1, 160_000]].map(([perSecond = 0, entries = 0]) => {
    const load = { instances: INSTANCES, perSecond, entries, ms: 300_000, seed: SEED };
    const figures = simulateRevocations(load, costsOf(1, 1));
    return row(
      "revocations",
      `${perSecond < 1 ? "1 a minute" : `${perSecond} a second`}, ${entries} entries`,
      whole(figures.wakeUpsPerSecond),
      whole(figures.recordsPerSecond),
      rounded(figures.instanceCore, 3),
      rounded(figures.listBytes / 1e6),
      rounded((figures.p50Ms ?? 0) / 1000, 2),
      rounded((figures.p99Ms ?? 0) / 1000, 2),
    );
  });
  await sameInDoc(rows, "revocations");
});

Deno.test("the agents of a lost region are back in the time of docs/scaling.md", async () => {
  const variants = [
    [1, 1, 1, HANDSHAKE_MS],
    [1, 1, 1, CLAIM_WAIT_MS],
    [1, 1, 16, CLAIM_WAIT_MS],
    [10, 1, 16, CLAIM_WAIT_MS],
    [10, 16, 16, CLAIM_WAIT_MS],
  ];
  const rows = variants.map(([roundTripMs = 0, commits = 0, storeCores = 0, refusedAfterMs = 0]) => {
    const figures = simulateReconnect({
      agents: AGENTS / REGIONS,
      instances: INSTANCES * (1 - 1 / REGIONS),
      storeCores,
      commits: counted("connection", "commits"),
      readCalls: counted("connection", "readCalls"),
      refusedAfterMs,
      seed: SEED,
    }, costsOf(roundTripMs, commits));
    return row(
      "return",
      `${roundTripMs} ms, ${inFlight(commits)}, ${storeCores} cores, refusal after ${refusedAfterMs / 1000} s`,
      rounded(figures.halfS),
      rounded(figures.mostS),
      rounded(figures.allS),
      rounded(figures.attempts),
      rounded(figures.wasted, 2),
    );
  });
  assert(rows.length > 0 && END_MS > 0);
  await sameInDoc(rows, "return");
});

Deno.test("the simulation gives the same figures for the same seed, and others for another", () => {
  const run = (seed: number) =>
    simulateMessages({ agents: 2_000, instances: 10, perMinute: 60, ms: 200, seed }, costsOf(1, 1));
  assertEquals(run(7), run(7));
  assert(run(7).commitsPerSecond !== run(8).commitsPerSecond);
});

Deno.test("a lone message to another instance takes the counted round trips", () => {
  const costs = costsOf(1, 1);
  const load = { agents: 1_000, instances: 100, perMinute: 0.6, ms: 60_000, seed: SEED };
  const counts = Number(docCells(doc, "two with a link, denokv", "delivered by the other")[2]);
  const { p50Ms } = simulateMessages(load, costs);
  // The counted message follows others within a second; a lone one reads its records first.
  assert(p50Ms !== null && Math.abs(p50Ms - counts - 1) <= 0.5, `${p50Ms} ms against ${counts} round trips`);
});

Deno.test("events run in the order of their time, and of their arrival at the same time", () => {
  const events = new Events(), ran: string[] = [], chance = numbersFrom(3);
  const expected = Array.from({ length: 200 }, (_, i) => ({ at: Math.floor(chance() * 20), name: `${i}` }));
  for (const { at, name } of expected) events.after(at, () => ran.push(name));
  events.runUntil(20);
  assertEquals(ran, expected.sort((a, b) => a.at - b.at).map(({ name }) => name));
  assertEquals([quantile([3, 1, 2], 0.5), quantile([], 0.5)], [2, null]);
});
