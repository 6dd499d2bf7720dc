/**
 * A service in long use (D-217): messages keep arriving, memory stays constant once warm, and no record of them stays
 * in the store permanently. Runs for seconds here; with `-- --trials 600` for ten minutes, the first five of which fill
 * the caches (nonces, known records).
 */
import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { messageTo, Service } from "../support/process.ts";
import { trials } from "../support/trials.ts";

const SECONDS = trials(3);
const PER_SECOND = 20;
const WARM_UP = 600;
/**
 * With a large heap V8 delays garbage collection for minutes; with this one it must collect, and a leak ends the
 * server.
 */
const HEAP_MIB = 64;
/** From the middle to the end. */
const GROWTH_MIB = 32;
/** The longest lifetime of a message's records, plus a minute for the difference between the clocks. */
const LONGEST_MS = (LIMITS.deliveryKeptSeconds + LIMITS.sweepMarginSeconds) * 1000 + 60_000;

async function residentMiB(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

/** Records in the file of Deno KV: their number, and how many of them outlive every message. */
function recordsOf(path: string): { all: number; lasting: number } {
  using database = new DatabaseSync(path, { readOnly: true });
  const row = database.prepare("select count(*) as n, sum(expiration_ms = -1 or expiration_ms > ?) as lasting from kv")
    .get(Date.now() + LONGEST_MS) as Record<string, number>;
  return { all: Number(row.n), lasting: Number(row.lasting) };
}

Deno.test({
  name: `${PER_SECOND} messages a second for ${SECONDS} s leave memory constant and no record permanently`,
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using service = await Service.open({ DENO_V8_FLAGS: `--max-old-space-size=${HEAP_MIB}` });
    const { a, b } = await service.agents();
    const connector = await service.connect(b);
    const path = `${service.folders[0]?.path}/svc.kv`;
    for (let n = 0; n < WARM_UP; n += 20) {
      await Promise.all(Array.from({ length: 20 }, () => a.client.sendMessage(messageTo(b))));
    }
    const records = recordsOf(path);
    const memory = [await residentMiB(service.server.pid)];
    const began = performance.now();
    const count = SECONDS * PER_SECOND;
    for (let n = 0; n < count; n++) {
      assert((await a.client.sendMessage(messageTo(b))).delivered);
      const rest = began + (n + 1) * 1000 / PER_SECOND - performance.now();
      if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
      if ((n + 1) % (count / 4) === 0) memory.push(await residentMiB(service.server.pid));
    }
    const after = recordsOf(path);
    const quarters = memory.map((mib) => mib.toFixed(0)).join(", ");
    console.log(`${count} messages, by quarters: ${quarters} MiB; ${records.all} to ${after.all} records`);
    assertEquals(connector.frames.length, WARM_UP + count);
    assertEquals(after.lasting, records.lasting, "records that outlive their message");
    const [, , middle = 0, , end = 0] = memory;
    assert(end - middle < GROWTH_MIB, `memory grew: ${quarters} MiB`);
    assertEquals(service.server.stderr.lines, []);
    await connector.close();
  },
});
