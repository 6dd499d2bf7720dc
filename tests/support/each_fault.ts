/**
 * Fails the store calls of a request, one after the other, and checks that the request took effect completely or not
 * at all.
 */
import { assert, assertEquals } from "@std/assert";
import { FaultyKv } from "./faulty_kv.ts";
import { flushTasks } from "./manual_clock.ts";
import { outcome } from "./registry_world.ts";
import { IS_LONG } from "./trials.ts";
import type { World } from "./world.ts";

/** A request that is repeated, each time in a new world. */
export interface Trial {
  open(kv: Deno.Kv): Promise<World>;
  prepare(w: World): Promise<() => Promise<Response>>;
  /** Its answer without a failure. */
  wanted: string;
  /** Kinds of records that may be written although the request fails: those of admission. */
  beside: readonly string[];
}

/** How a call fails, and the allowed answers. */
export interface Failure {
  error: () => Error;
  only?: "commit";
  answers: readonly RegExp[];
  /** Further kinds of records that may be written when the request fails this way. */
  beside?: readonly string[];
}

/** The store does not answer. */
export const GONE: Failure = { error: () => new Error("The store is gone"), answers: [/^503 /] };
/** A commit throws that a value or the commit is too large. */
export const TOO_LARGE: Failure = {
  error: () => new TypeError("Value too large (max 65536 bytes)"),
  only: "commit",
  answers: [/^500 INTERNAL_ERROR$/, /^503 /],
};

/** The gate lets every fourth call fail, the last one among them; the long run each. */
const STEP = IS_LONG ? 1 : 4;

/** Runs a request once for each failure and each of its store calls, with that call failing. */
export async function failEach(trial: Trial, ...failures: Failure[]): Promise<void> {
  const whole = await attempt(trial, () => false);
  assertEquals(whole.result, trial.wanted);
  for (const { error, only, answers, beside = [] } of failures) {
    const count = only ? whole.commits : whole.calls;
    assert(count > 0, "no such call was made");
    const counted = (kinds: string[]) => kinds.filter((kind) => !beside.includes(kind));
    for (let failing = count; failing >= 1; failing -= STEP) {
      let calls = 0;
      const tried = await attempt(trial, (method) => (!only || method === only) && ++calls === failing && error());
      const changed = counted(tried.changed);
      const what = `call ${failing} of ${count} fails: ${tried.result}, changed: ${changed}`;
      assert(tried.result === trial.wanted || answers.some((one) => one.test(tried.result)), what);
      if (changed.length > 0 || tried.result === trial.wanted) assertEquals(changed, counted(whole.changed), what);
      else assertEquals(tried.again, trial.wanted, `${what}; then again`);
    }
  }
}

/** One attempt: the answer, its store calls, the kinds of records that it changed, and the answer of a repetition. */
async function attempt(
  { open, prepare, beside, wanted }: Trial,
  fails: (method: string) => false | Error,
): Promise<{ result: string; calls: number; commits: number; changed: string[]; again: string }> {
  using faulty = await FaultyKv.open();
  await using w = await open(faulty.kv);
  const call = await prepare(w);
  await flushTasks();
  const before = await stampsOf(w);
  let calls = 0, commits = 0;
  faulty.faults.fails = ({ method }) => {
    calls++;
    if (method === "commit") commits++;
    return fails(method);
  };
  const result = await outcome(await call());
  await flushTasks();
  delete faulty.faults.fails;
  const after = await stampsOf(w);
  const kinds = [...new Set([...before.keys(), ...after.keys()])]
    .filter((key) => before.get(key) !== after.get(key))
    .map((key) => String((JSON.parse(key) as string[])[1]));
  const changed = [...new Set(kinds)].filter((kind) => kind !== "commit_mark" && !beside.includes(kind)).sort();
  const again = result === wanted ? "" : await outcome(await call());
  return { result, calls, commits, changed, again };
}

/** The version of each record of the store, by its key, without those of the kinds `beside`. */
export async function stampsOf(w: World, ...beside: readonly string[]): Promise<Map<string, string>> {
  const all = await Array.fromAsync(w.kv.list({ prefix: [] }));
  const entries = all.filter(({ key }) => !beside.includes(String(key[1])));
  const text = (key: Deno.KvKey) => JSON.stringify(key, (_, part) => typeof part === "bigint" ? String(part) : part);
  return new Map(entries.map(({ key, versionstamp }) => [text(key), versionstamp]));
}
