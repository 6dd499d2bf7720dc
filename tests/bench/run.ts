/**
 * Sends prepared requests and measures their responses: each connection as fast as it gets responses, or all at an even
 * pace. Bounded by a count and by a time. A strict run ends at the first unexpected response.
 */
import process from "node:process";
import { percentile } from "./figures.ts";
import { HttpWire, type WireAnswer } from "./http_wire.ts";
import type { RunAnswer, RunAsk, Timed } from "./jobs.ts";
import type { Prepared } from "./plans.ts";

/** Runs a function. Returns its result with its duration and CPU time. */
export async function timed(work: () => Promise<void>): Promise<Timed> {
  const cpu = process.cpuUsage();
  const began = performance.now();
  await work();
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { seconds, cpuSeconds: (user + system) / 1_000_000 };
}

/** Sends the requests to one address. */
export async function run(url: string, prepared: Prepared, ask: RunAsk): Promise<RunAnswer> {
  const sending = new Sending(url, prepared, ask);
  await sending.open();
  try {
    const cost = await timed(() => ask.rate === undefined ? sending.flatOut() : sending.paced(ask.rate));
    if (ask.strict) prepared.ledger?.close(sending.sent);
    return { ...cost, ...sending.result() };
  } finally {
    sending.close();
  }
}

class Sending {
  readonly #url: string;
  readonly #prepared: Prepared;
  readonly #ask: RunAsk;
  readonly #wires: HttpWire[] = [];
  readonly #latencies: number[] = [];
  readonly #statuses: Record<string, number> = {};
  #waiting: (() => void)[] = [];
  #good = 0;
  #opened = 0;
  #failure: Error | null = null;
  sent = 0;

  constructor(url: string, prepared: Prepared, ask: RunAsk) {
    this.#url = url;
    this.#prepared = prepared;
    this.#ask = ask;
  }

  async open(): Promise<void> {
    for (let i = 0; i < this.#ask.concurrency; i++) this.#wires.push(await this.#connect());
  }

  #connect(): Promise<HttpWire> {
    const { urls = [this.#url] } = this.#ask;
    return HttpWire.open(urls[this.#opened++ % urls.length] ?? this.#url);
  }

  close(): void {
    for (const wire of this.#wires) wire.close();
  }

  /** Each connection sends its next request when it has its response. */
  async flatOut(): Promise<void> {
    const end = performance.now() + this.#ask.seconds * 1000;
    await Promise.all(
      this.#wires.splice(0).map(async (wire) => {
        let own = wire;
        while (performance.now() < end && this.#hasNext()) own = await this.#send(own, performance.now());
        this.#wires.push(own);
      }),
    );
    if (this.#failure) throw this.#failure;
  }

  /** Sends each request when it is due. The time that a request waits for a free connection counts. */
  async paced(rate: number): Promise<void> {
    const began = performance.now();
    const total = Math.floor(rate * this.#ask.seconds);
    const underWay: Promise<void>[] = [];
    for (let i = 0; i < total && this.#hasNext(); i++) {
      const rest = began + i * 1000 / rate - performance.now();
      if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
      const due = performance.now();
      while (this.#wires.length === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
      const wire = this.#wires.pop();
      if (wire) underWay.push(this.#send(wire, due).then((back) => this.#giveBack(back)));
    }
    await Promise.all(underWay);
    if (this.#failure) throw this.#failure;
  }

  result(): Omit<RunAnswer, "seconds" | "cpuSeconds"> {
    const sorted = Float64Array.from(this.#latencies).sort();
    const max = sorted[sorted.length - 1] ?? NaN;
    const [p50, p99] = [percentile(sorted, 0.5), percentile(sorted, 0.99)];
    return { sent: this.sent, good: this.#good, statuses: this.#statuses, p50, p99, max };
  }

  #hasNext(): boolean {
    return this.#failure === null && (this.#ask.repeat === true || this.sent < this.#prepared.requests.length);
  }

  #giveBack(wire: HttpWire): void {
    this.#wires.push(wire);
    this.#waiting.shift()?.();
  }

  /** Sends the next request. Returns the connection, or a new one when it broke. */
  async #send(wire: HttpWire, began: number): Promise<HttpWire> {
    const index = this.sent++ % this.#prepared.requests.length;
    const request = this.#prepared.requests[index] ?? new Uint8Array();
    let answer: WireAnswer;
    try {
      answer = await wire.exchange(request);
    } catch (cause) {
      if (this.#ask.strict) this.#failure ??= new Error(`Request ${index} was not answered`, { cause });
      this.#count("broken");
      wire.close();
      return await this.#connect();
    }
    this.#latencies.push(performance.now() - began);
    this.#count(String(answer.status));
    if (this.#prepared.isGood(answer, index)) this.#good++;
    else if (this.#ask.strict) {
      this.#failure ??= new Error(`Request ${index} was answered with ${answer.status}: ${answer.text.slice(0, 500)}`);
    }
    return wire;
  }

  #count(status: string): void {
    this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
  }
}
