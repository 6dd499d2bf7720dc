/**
 * Makes bare commits in the store that the service uses, one after the other: a check and a set of a record as small as
 * a nonce. Then 100 such records in one commit. Prints the time of one record, in microseconds.
 *
 *   deno run --allow-read=<folder> --allow-write=<folder> tests/bench/commits.ts <file> <count>
 */
import process from "node:process";

const [path = "", count = "0"] = Deno.args;
const PER_BATCH = 100;
const kv = await Deno.openKv(path);
const value = { expiresAt: Date.now(), timestamp: Date.now() };

async function commit(first: number, size: number): Promise<void> {
  const operation = kv.atomic();
  for (let i = first; i < first + size; i++) {
    const key = ["bench", "nonce", `record-${String(i).padStart(32, "0")}`];
    operation.check({ key, versionstamp: null }).set(key, value, { expireIn: 600_000 });
  }
  if (!(await operation.commit()).ok) throw new Error("A commit failed its check, but there is no other writer");
}

async function measure(commits: number, size: number, from: number): Promise<{ us: number; cpuUs: number }> {
  const cpu = process.cpuUsage();
  const began = performance.now();
  for (let i = 0; i < commits; i++) await commit(from + i * size, size);
  const us = (performance.now() - began) * 1000 / commits;
  const { user, system } = process.cpuUsage(cpu);
  return { us, cpuUs: (user + system) / commits };
}

const commits = Number(count);
await measure(Math.ceil(commits / 10), 1, 0);
const single = await measure(commits, 1, commits);
const batch = await measure(Math.ceil(commits / 20), PER_BATCH, commits * 3);
kv.close();
console.log(JSON.stringify({ single, each: { us: batch.us / PER_BATCH, cpuUs: batch.cpuUs / PER_BATCH } }));
