/** Three instances as processes over one denokv, with a link that can fail on each way. */
import { accessToken, Denokv } from "../../support/denokv.ts";
import { eventually, freePort, ROOT, type ServerProcess, startServer } from "../../support/process.ts";
import { SlowLink } from "../../tools/slow_link.ts";
import { INSTANCES } from "./plan.ts";

/** Where Debian and `.ci/run` put libraries. */
const LIBRARIES = ["/usr/lib", `${ROOT}/.cache/debian/usr/lib`];

/** Returns the library that sets the clock of a process (Debian's package `libfaketime`), or `null`. */
export async function findFaketime(): Promise<string | null> {
  for (const folder of LIBRARIES) {
    const path = `${folder}/${Deno.build.arch}-linux-gnu/faketime/libfaketimeMT.so.1`;
    if (await Deno.stat(path).then(() => true, () => false)) return path;
  }
  return null;
}

/** One instance: its process while it runs, and its links. */
interface Instance {
  port: number;
  process: ServerProcess | null;
  /** From clients to the instance. */
  front: SlowLink;
  /** From the instance to the store. */
  back: SlowLink;
  clockFile: string;
  /** Output of processes that have ended. */
  printed: string;
}

export class Cluster implements AsyncDisposable {
  readonly instances: Instance[] = [];
  #isClosed = false;

  private constructor(
    readonly store: Denokv,
    readonly folder: string,
    readonly entry: readonly string[] | undefined,
    readonly faketime: string | null,
  ) {}

  static async open(
    program: string,
    folder: string,
    { entry, delayMs = 0, faketime = null }: {
      entry?: readonly string[];
      delayMs?: number;
      faketime?: string | null;
    } = {},
  ): Promise<Cluster> {
    // A port outside of the range of outgoing connections: a restart of the server needs it again.
    const store = await Denokv.start(program, `${folder}/denokv.sqlite`, freePort());
    const cluster = new Cluster(store, folder, entry, faketime);
    for (let i = 0; i < INSTANCES; i++) {
      const port = freePort();
      const clockFile = `${folder}/clock-${i}`;
      await Deno.writeTextFile(clockFile, "+0");
      const front = new SlowLink(`127.0.0.1:${port}`), back = new SlowLink(store.address, delayMs);
      cluster.instances.push({ port, process: null, front, back, clockFile, printed: "" });
    }
    // The first start writes the records that every store has.
    await cluster.start(0);
    await Promise.all(cluster.instances.slice(1).map((_, i) => cluster.start(i + 1)));
    return cluster;
  }

  /** The public origin of all instances, which requests sign. */
  get origin(): string {
    return `http://127.0.0.1:${this.instances[0]?.port}`;
  }

  /** Address of the link from clients to an instance. */
  dial(i: number): string {
    return this.#of(i).front.address;
  }

  async start(i: number): Promise<void> {
    const { port, back, clockFile } = this.#of(i);
    const clock: Record<string, string> = this.faketime !== null
      ? {
        LD_PRELOAD: this.faketime,
        FAKETIME_TIMESTAMP_FILE: clockFile,
        FAKETIME_NO_CACHE: "1",
        DONT_FAKE_MONOTONIC: "1",
      }
      : {};
    this.#of(i).process = await startServer({
      folder: this.folder,
      ...(this.entry ? { entry: this.entry } : {}),
      env: {
        ...clock,
        PORT: String(port),
        INSTANCE_LISTEN: "127.0.0.1:0",
        KV_URL: back.address,
        DENO_KV_ACCESS_TOKEN: accessToken(),
        REGISTRY_URL: this.origin,
        PROXY_URL: this.origin,
        TRUSTED_PROXIES: "127.0.0.1",
        AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "100000",
      },
    });
  }

  /** Starts an instance again, also while its store is away, until it runs. */
  async startAgain(i: number, withinMs = 60_000): Promise<void> {
    const instance = this.#of(i);
    await eventually(withinMs, `instance ${i} starts`, async () => {
      if (this.#isClosed || instance.process !== null) return true;
      return await this.start(i).then(() => true, () => undefined);
    });
  }

  async kill(i: number, signal: Deno.Signal = "SIGKILL"): Promise<void> {
    const instance = this.#of(i), { process } = instance;
    if (!process) return;
    instance.process = null;
    await process.end(signal);
    instance.printed += process.stderr.text;
  }

  /** Stops a process as a pause of its machine does: its connections stay, and nothing in it runs. */
  freeze(i: number): void {
    this.#of(i).process?.signal("SIGSTOP");
  }

  thaw(i: number): void {
    this.#of(i).process?.signal("SIGCONT");
  }

  async setClock(i: number, seconds: number): Promise<void> {
    // One write: a process that reads half a text would see another time.
    await Deno.writeTextFile(`${this.#of(i).clockFile}.new`, `${seconds < 0 ? "-" : "+"}${Math.abs(seconds)}`);
    await Deno.rename(`${this.#of(i).clockFile}.new`, this.#of(i).clockFile);
  }

  /** Ends every fault of the network and the clocks. */
  async heal(): Promise<void> {
    for (const [i, { front, back }] of this.instances.entries()) {
      front.heal();
      back.heal();
      await this.setClock(i, 0);
    }
  }

  /** Lines of the logs that report a defect. Without the store the revocation list is 500. */
  defects(): string[] {
    return this.instances.flatMap(({ printed, process }) => `${printed}\n${process?.stderr.text ?? ""}`.split("\n"))
      .filter((line) => /unhandled_rejection|uncaught_exception|"request_failed"|panicked|"status":500/.test(line))
      .filter((line) => !/"CRL_BUILD_FAILED".*"StoreUnavailable"/.test(line));
  }

  #of(i: number): Instance {
    const found = this.instances[i];
    if (!found) throw new RangeError(`There is no instance ${i}`);
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    for (const [i, { front, back }] of this.instances.entries()) {
      await this.kill(i);
      await front[Symbol.asyncDispose]();
      await back[Symbol.asyncDispose]();
    }
    await this.store[Symbol.asyncDispose]();
  }
}
