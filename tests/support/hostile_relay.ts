/** Starts the relay that lies (hostile_proxy.ts) as a process, and arms its attacks. */
import { childCommand, within } from "./child_command.ts";
import type { AttackName, Json } from "./hostile_proxy.ts";
import { SOON_MS } from "./process.ts";
import { ProcessOutput } from "./process_output.ts";

/** An acknowledgement of a frame that the relay has changed or invented. */
export interface RelayAck {
  attack: string;
  accepted: boolean;
  reason: string | null;
}

export class HostileRelay implements AsyncDisposable {
  readonly #output: ProcessOutput;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;

  private constructor(private readonly child: Deno.ChildProcess, readonly errors: ProcessOutput) {
    this.#output = new ProcessOutput(child.stdout);
    this.#input = child.stdin.getWriter();
  }

  /** @param origin of the proxy behind it */
  static async start(origin: string): Promise<HostileRelay> {
    const args = [
      "run",
      "--no-prompt",
      "--allow-net=127.0.0.1",
      "--allow-env",
      "tests/support/hostile_proxy.ts",
      origin,
    ];
    const child = childCommand(args, {}, { command: Deno.execPath(), stdin: "piped" }).spawn();
    const relay = new HostileRelay(child, new ProcessOutput(child.stderr));
    await within(2 * SOON_MS, "the relay listens", relay.#output.match(/"url"/));
    return relay;
  }

  get #lines(): Json[] {
    return this.#output.lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  }

  /** The address that a connector dials. */
  get wsUrl(): string {
    return String(this.#lines[0]?.url).replace(/^http/, "ws");
  }

  /** Arms an attack for the next thing that it fits. */
  async arm(attack: AttackName): Promise<void> {
    const before = this.#count("armed", attack);
    await this.#input.write(new TextEncoder().encode(`${JSON.stringify({ attack })}\n`));
    await this.#until(`${attack} is armed`, () => this.#count("armed", attack) > before);
  }

  /** Waits until an answer was changed. */
  async made(attack: AttackName, times = 1): Promise<void> {
    await this.#until(`${attack} is made`, () => this.#count("made", attack) >= times);
  }

  /** Waits for the acknowledgements of what an attack has sent. */
  async acks(attack: AttackName, count = 1): Promise<RelayAck[]> {
    await this.#until(`${count} acknowledgements of ${attack}`, () => this.#count("attack", attack) >= count);
    return this.#lines.filter((line) => line.attack === attack) as unknown as RelayAck[];
  }

  #count(member: string, value: string): number {
    return this.#lines.filter((line) => line[member] === value).length;
  }

  async #until(what: string, holds: () => boolean): Promise<void> {
    const end = Date.now() + 2 * SOON_MS;
    while (!holds()) {
      if (Date.now() > end) throw new Error(`Not in time: ${what}\n${this.#output.text}\n${this.errors.text}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#input.close().catch(() => {});
    this.child.kill("SIGKILL");
    await this.child.status;
    await Promise.all([this.#output.ended, this.errors.ended]);
  }
}
