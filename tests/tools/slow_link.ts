/**
 * A network link between two programs on loopback: a plain TCP proxy that adds a fixed delay each way and can be
 * stalled, reset and cut. It knows no protocol above TCP.
 *
 * As a program: `deno run -A tests/tools/slow_link.ts --to 127.0.0.1:4512 --delay 5`. It prints its address.
 */

const CHUNK_BYTES = 65_536;

/** One connection through the link: two sockets and both directions. */
interface Wire {
  near: Deno.TcpConn;
  far: Deno.TcpConn;
}

/** A link to one address. */
export class SlowLink implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #to: { hostname: string; port: number };
  readonly #wires = new Set<Wire>();
  readonly #working = new Set<Promise<void>>();
  #isCut = false;
  /** Resolves when bytes may pass. */
  #open: PromiseWithResolvers<void> | null = null;

  /** Milliseconds that bytes take one way. A change holds for the bytes that arrive after it. */
  delayMs: number;

  /**
   * Opens a link on a free port of loopback.
   *
   * @param to the address behind the link, for instance `http://127.0.0.1:4512` or `127.0.0.1:4512`
   */
  constructor(to: string, delayMs = 0) {
    const { hostname, port } = new URL(to.includes("://") ? to : `http://${to}`);
    this.#to = { hostname, port: Number(port) };
    this.delayMs = delayMs;
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#track(this.#accept());
  }

  /** For instance `http://127.0.0.1:12345`. */
  get address(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  /** Open connections. */
  get connections(): number {
    return this.#wires.size;
  }

  /** Holds every byte both ways, also of new connections. Neither side sees an end. */
  stall(): void {
    this.#open ??= Promise.withResolvers();
  }

  /** Ends every connection. New ones work. */
  reset(): void {
    for (const wire of this.#wires) this.#end(wire);
  }

  /** Ends every connection, and each new one at once. */
  cut(): void {
    this.#isCut = true;
    this.reset();
  }

  /** Ends a stall and a cut. Bytes that were held arrive. */
  heal(): void {
    this.#isCut = false;
    this.#open?.resolve();
    this.#open = null;
  }

  async #accept(): Promise<void> {
    for await (const near of this.#listener) this.#track(this.#join(near));
  }

  async #join(near: Deno.TcpConn): Promise<void> {
    if (this.#isCut) return near.close();
    let far: Deno.TcpConn;
    try {
      far = await Deno.connect(this.#to);
    } catch {
      // No program listens there. The caller sees an end, as it would without the link.
      return near.close();
    }
    near.setNoDelay();
    far.setNoDelay();
    const wire = { near, far };
    this.#wires.add(wire);
    if (this.#isCut) this.#end(wire);
    await Promise.all([this.#carry(wire, near, far), this.#carry(wire, far, near)]);
    this.#end(wire);
  }

  /** Passes bytes one way until the sender closes its side. */
  async #carry(wire: Wire, from: Deno.TcpConn, to: Deno.TcpConn): Promise<void> {
    let last: Promise<void> = Promise.resolve();
    try {
      for (;;) {
        const buffer = new Uint8Array(CHUNK_BYTES);
        const size = await from.read(buffer);
        const due = performance.now() + this.delayMs;
        last = this.#pass(last, due, to, size === null ? null : buffer.subarray(0, size));
        // A lost side ends both at the next read or write; nothing waits for this promise until then.
        last.catch(() => this.#end(wire));
        if (size === null) break;
      }
      await last;
    } catch {
      this.#end(wire);
    }
  }

  async #pass(before: Promise<void>, due: number, to: Deno.TcpConn, bytes: Uint8Array | null): Promise<void> {
    const rest = due - performance.now();
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
    await before;
    while (this.#open) await this.#open.promise;
    if (bytes === null) return await to.closeWrite();
    for (let left = bytes; left.length > 0;) left = left.subarray(await to.write(left));
  }

  #end(wire: Wire): void {
    if (!this.#wires.delete(wire)) return;
    for (const socket of [wire.near, wire.far]) socket.close();
  }

  #track(work: Promise<void>): void {
    this.#working.add(work);
    work.finally(() => this.#working.delete(work));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isCut = true;
    this.#listener.close();
    this.heal();
    this.reset();
    while (this.#working.size > 0) await Promise.all(this.#working);
  }
}

if (import.meta.main) {
  const [to, delay] = ["--to", "--delay"].map((name) => Deno.args[Deno.args.indexOf(name) + 1 || Infinity]);
  if (!to) {
    console.error("Usage: slow_link.ts --to <host:port> [--delay <milliseconds each way>]");
    Deno.exit(2);
  }
  console.log(`listening on ${new SlowLink(to, Number(delay ?? 0)).address}`);
}
