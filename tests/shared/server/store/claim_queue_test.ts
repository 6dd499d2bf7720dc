/** Shows which claims the next commit takes while others are in flight. No store. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { ClaimQueue, PASSED_OVER_MAX, type Queued } from "../../../../shared/server/store/claim_queue.ts";

interface Claim extends Queued {
  number: number;
}

function queueOf(maxChecks: number, claims: readonly string[], bytes = 0): ClaimQueue<Claim> {
  const queue = new ClaimQueue<Claim>(maxChecks);
  claims.forEach((ids, i) => queue.add({ ids: ids.split(""), bytes, since: 100 + i, number: i }));
  return queue;
}

function taken(batch: readonly Claim[]): number[] {
  return batch.map(({ number }) => number);
}

Deno.test("a commit takes claims in order up to its number of records, also several on one record", () => {
  const queue = queueOf(3, ["ab", "a", "bc", "cd", "e"]);
  assertEquals(taken(queue.take()), [0, 1, 2]);
  assertEquals(taken(queue.take()), [4], "a claim waits for the record c in flight");
  assertEquals([queue.size, queue.oldest], [5, 100]);
});

Deno.test("a claim on more records than a commit may hold is taken alone", () => {
  const queue = queueOf(2, ["abc", "d"]);
  assertEquals([taken(queue.take()), taken(queue.take()), taken(queue.take())], [[0], [1], []]);
});

Deno.test("a claim waits behind an earlier waiting claim on one of its records", () => {
  const queue = queueOf(10, ["x", "y", "z"]);
  const first = queue.take();
  for (const [i, ids] of ["xp", "pq", "q", "r"].entries()) {
    queue.add({ ids: ids.split(""), bytes: 0, since: 200 + i, number: 3 + i });
  }
  const second = queue.take();
  assertEquals([taken(second), taken(queue.take())], [[6], []]);
  queue.done(second);
  assertEquals([queue.size, queue.oldest], [6, 100]);
  queue.add({ ids: ["s"], bytes: 0, since: 300, number: 7 });
  assertEquals(queue.oldestUnblocked, 300, "the three before it wait for x");
  assertEquals([taken(queue.take()), queue.oldestUnblocked], [[7], undefined]);
  queue.done(first);
  assertEquals(queue.oldest, 200);
  assertEquals(taken(queue.take()), [3, 4, 5]);
});

Deno.test("a claim that may wait begins no commit and does not count as the oldest, but is taken in its order", () => {
  const queue = new ClaimQueue<Claim>(10);
  const add = (number: number, id: string, mayWait: boolean) =>
    queue.add({ ids: [id], bytes: 0, since: 100 + number, number, mayWait });
  add(0, "a", true);
  assertEquals([queue.isDue, queue.oldest, queue.waitingSince, queue.size], [false, Infinity, 100, 1]);
  add(1, "b", false);
  assertEquals([queue.isDue, queue.oldest], [true, 101]);
  const first = queue.take();
  assertEquals([taken(first), queue.isDue, queue.oldest, queue.waitingSince], [[0, 1], false, 101, undefined]);
  add(2, "a", true);
  add(3, "c", true);
  queue.makeAllDue();
  assertEquals([queue.isDue, taken(queue.take()), queue.isDue], [true, [3], true], "the record a is in flight");
  queue.done(first);
  assertEquals([taken(queue.take()), queue.isDue], [[2], false]);
  queue.makeAllDue();
  add(4, "d", true);
  assertEquals(queue.isDue, false, "only claims that waited then are due");
});

Deno.test("a commit takes claims up to its payload", () => {
  const queue = queueOf(10, ["a", "b", "c"], LIMITS.commitBytes / 2);
  assertEquals([taken(queue.take()), taken(queue.take())], [[0, 1], [2]]);
});

Deno.test("a commit passes at most 500 claims that wait for a commit in flight", () => {
  const queue = queueOf(1, ["x"]);
  const first = queue.take();
  for (let i = 0; i < PASSED_OVER_MAX; i++) queue.add({ ids: ["x"], bytes: 0, since: 0, number: i });
  queue.add({ ids: ["y"], bytes: 0, since: 0, number: 1_000 });
  assertEquals(taken(queue.take()), []);
  queue.done(first);
  assertEquals(taken(queue.take()).length, PASSED_OVER_MAX);
  assertEquals(taken(queue.take()), [1_000]);
});

Deno.test("commits in flight share no record and keep the order per record for any claims", () => {
  const ids = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d", "e", "f"), { minLength: 1, maxLength: 3 });
  // Each step adds a claim, takes a commit, or ends the commit in flight with this number.
  const step = fc.oneof(ids, fc.constant("take" as const), fc.nat(5));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: "max" }), fc.integer({ min: 1, max: 4 }), (steps, maxChecks) => {
      const queue = new ClaimQueue<Claim>(maxChecks);
      const inFlight: (readonly Claim[])[] = [];
      const order = new Map<string, number>();
      let added = 0, out = 0;
      const take = () => {
        const batch = queue.take();
        if (batch.length === 0) return false;
        for (const { ids, number } of batch) {
          for (const id of ids) {
            assert(!inFlight.flat().some((other) => other.ids.includes(id)), "two commits in flight on one record");
            assert((order.get(id) ?? -1) < number, "a claim passed an earlier one on its record");
            order.set(id, number);
          }
        }
        assert(batch.length === 1 || new Set(batch.flatMap((claim) => claim.ids)).size <= maxChecks);
        inFlight.push(batch);
        out += batch.length;
        return true;
      };
      for (const one of steps) {
        if (one === "take") take();
        else if (typeof one === "number") inFlight.splice(one, 1).forEach((batch) => queue.done(batch));
        else queue.add({ ids: one, bytes: 0, since: added, number: added++ });
      }
      // Every claim gets its commit.
      while (take() || inFlight.length > 0) inFlight.splice(0).forEach((batch) => queue.done(batch));
      assertEquals([out, queue.size, queue.oldest], [added, 0, Infinity]);
    }),
  );
});

Deno.test("overdue claims are returned once: those that wait leave the queue, those in flight stay until their commit ends", () => {
  const queue = queueOf(1, ["a", "b", "a", "c"]);
  const first = queue.take();
  assertEquals([taken(first), queue.oldestOpen], [[0], 100]);
  assertEquals(taken(queue.takeOverdue(102, 200)), [0, 1, 2]);
  assertEquals([queue.size, queue.oldestOpen, queue.oldestUnblocked], [2, 103, 103]);
  assertEquals(queue.takeOverdue(102, 200), []);
  assertEquals(taken(queue.take()), [3], "the claim on b is gone");
  queue.add({ ids: ["a"], bytes: 0, since: 104, number: 4 });
  assertEquals(queue.take(), [], "the commit on a is still in flight");
  queue.done(first);
  assertEquals(taken(queue.take()), [4]);
});

Deno.test("a claim that ended while it waited for a record neither hides a later one nor makes it due", () => {
  const queue = queueOf(1, ["a"]);
  assertEquals(taken(queue.take()), [0]);
  queue.add({ ids: ["a"], bytes: 0, since: 101, number: 1 });
  queue.add({ ids: ["b"], bytes: 0, since: 102, number: 2 });
  assertEquals(taken(queue.take()), [2]);
  queue.makeAllDue();
  assertEquals(taken(queue.takeOverdue(101, 200)), [0, 1]);
  queue.add({ ids: ["c"], bytes: 0, since: 103, number: 3, mayWait: true });
  assertEquals([queue.isDue, queue.oldestUnblocked], [false, undefined]);
  queue.add({ ids: ["d"], bytes: 0, since: 104, number: 4 });
  assertEquals([queue.isDue, queue.oldestUnblocked], [true, 104]);
});

Deno.test("a claim dated ahead of the clock is overdue, because the clock has stepped back", () => {
  const queue = queueOf(10, ["a", "b"]);
  assertEquals(taken(queue.takeOverdue(-900, 100)), [1]);
  assertEquals(taken(queue.takeOverdue(-901, 99)), [0]);
  assertEquals(queue.oldestOpen, Infinity);
});
