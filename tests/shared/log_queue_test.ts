/** The queue of the log's lines: it never waits, keeps a bound, and reports how many lines it has dropped. */
import { assert, assertEquals } from "@std/assert";
import type { Bytes } from "../../shared/protocol/base64url.ts";
import { LogQueue } from "../../shared/log_queue.ts";
import { flushTasks, ManualClock } from "../support/manual_clock.ts";

const MIB = 1_048_576;

/** A standard error whose reader takes bytes only while it reads. */
class Pipe {
  text = "";
  /** Most bytes of one write. */
  most = Infinity;
  isBroken = false;
  #reads = Promise.withResolvers<void>();
  readonly #decoder = new TextDecoder();

  constructor(isRead = true) {
    if (isRead) this.#reads.resolve();
  }

  stop(): void {
    this.#reads = Promise.withResolvers();
  }

  read(): void {
    this.#reads.resolve();
  }

  readonly write = async (bytes: Bytes): Promise<number> => {
    await this.#reads.promise;
    if (this.isBroken) throw new Deno.errors.BrokenPipe("Broken pipe");
    const part = bytes.subarray(0, this.most);
    this.text += this.#decoder.decode(part, { stream: true });
    return part.length;
  };

  get lines(): string[] {
    return this.text.split("\n").slice(0, -1);
  }
}

function queueTo(pipe: Pipe): LogQueue {
  const queue: LogQueue = new LogQueue(pipe.write, (lines) => queue.add(`dropped ${lines}`));
  return queue;
}

Deno.test("lines arrive whole and in their order, also when each write takes only a part", async () => {
  for (const most of [Infinity, 7]) {
    const pipe = new Pipe();
    pipe.most = most;
    const queue = queueTo(pipe);
    const lines = Array.from({ length: 500 }, (_, i) => `${i} é ${"x".repeat(i)}`);
    for (const [i, line] of lines.entries()) {
      queue.add(line);
      if (i % 100 === 0) await flushTasks();
    }
    await queue.written(new ManualClock(), 1_000);
    assertEquals(pipe.lines, lines);
    assertEquals(queue.dropped, 0);
  }
});

Deno.test("a line that is added as a write ends is written without another one", async () => {
  for (let turns = 0; turns < 20; turns++) {
    const pipe = new Pipe(), queue = queueTo(pipe);
    queue.add("first");
    for (let i = 0; i < turns; i++) await Promise.resolve();
    queue.add("second");
    await flushTasks();
    assertEquals(pipe.lines, ["first", "second"], `after ${turns} turns`);
  }
});

Deno.test("a queue whose reader stops keeps 1 MiB, drops the other lines, and reports their number when it is read again", async () => {
  const pipe = new Pipe(false);
  const queue = queueTo(pipe);
  const line = "x".repeat(1_023);
  for (let i = 0; i < 3_000; i++) queue.add(line);
  await flushTasks();
  assertEquals([pipe.text, queue.dropped], ["", 3_000 - MIB / 1_024]);
  pipe.read();
  await queue.written(new ManualClock(), 1_000);
  const reported = pipe.lines.filter((one) => one.startsWith("dropped"));
  assertEquals(reported, [`dropped ${queue.dropped}`]);
  assertEquals(pipe.lines.length, MIB / 1_024 + 1);

  pipe.stop();
  for (let i = 0; i < 2_000; i++) queue.add(line);
  pipe.read();
  await queue.written(new ManualClock(), 1_000);
  const sum = pipe.lines.filter((one) => one.startsWith("dropped")).map((one) => Number(one.split(" ")[1]));
  assertEquals(sum.reduce((a, b) => a + b), queue.dropped, "each dropped line is reported once");
});

Deno.test("a queue whose reader is gone drops the lines, does not try without end, and goes on with a new reader", async () => {
  const pipe = new Pipe();
  pipe.isBroken = true;
  const queue = queueTo(pipe);
  for (let i = 0; i < 10; i++) queue.add("lost");
  await queue.written(new ManualClock(), 1_000);
  assertEquals([pipe.text, queue.dropped], ["", 10]);
  pipe.isBroken = false;
  queue.add("kept");
  await queue.written(new ManualClock(), 1_000);
  assertEquals(pipe.lines, ["kept", "dropped 10"]);
});

Deno.test("the wait for the last lines ends after its time while they are not read", async () => {
  const clock = new ManualClock();
  const queue = queueTo(new Pipe(false));
  await queue.written(clock, 250);
  queue.add("waits");
  let ended = false;
  const written = queue.written(clock, 250).then(() => ended = true);
  await clock.advance(249);
  assert(!ended);
  await clock.advance(1);
  await written;
});
