/**
 * `svc` in the test's process: a person with a machine of their own and files in a temporary folder. Requests reach the
 * two services of a World without a socket.
 */
import type { EnvironmentName, System as CliWorld } from "../../cli/context.ts";
import { Interrupt } from "../../cli/terminal/interrupt.ts";
import { run } from "../../cli/main.ts";
import { BOOTSTRAP_SECRET, REGISTRY_URL, World } from "../support/world.ts";
import { type Outcome, SvcRunner } from "./svc_runner.ts";

/** What a test may set on a machine. */
export interface MachineOptions {
  env?: Partial<Record<EnvironmentName, string>>;
  fetch?: typeof fetch;
  isTerminal?: boolean;
}

/** A machine on which `svc` runs. */
export class Machine extends SvcRunner implements AsyncDisposable {
  readonly env: Partial<Record<EnvironmentName, string>>;
  /** The text on standard input; `null`: it is a terminal. */
  stdin: string | null = "";
  /** The reader of standard output ends when it has read at least this many characters. */
  readsCharacters = Infinity;
  /** The answer to a question on the terminal; `null`: there is no terminal. */
  answers: boolean | null = null;
  /** The lines that a person types, `null` for Ctrl-D; `null` for all: there is no terminal. */
  types: (string | null)[] | null = null;
  /** Every question to the person. */
  readonly asked: string[] = [];
  isTerminal: boolean;
  /** Width of the terminal; `null`: unknown. */
  columns: number | null = null;
  /** The working directory; `null`: that of the test. */
  cwd: string | null = null;
  reach: ((url: string) => Promise<boolean>) | undefined;
  fetch: typeof fetch;
  /** The authorities that commands trusted in addition, in order. */
  readonly trusted: string[] = [];
  /** Starts the program of `--exec`; `null` where svc may start none. */
  exec: CliWorld["exec"] | null = null;
  /** Requests that were sent: method and path, in order. */
  readonly requests: string[] = [];
  #ends: World | null = null;

  private constructor(readonly world: World, override readonly dir: string, options: MachineOptions) {
    super();
    this.env = { SVC_CONFIG_DIR: dir, SVC_REGISTRY_URL: REGISTRY_URL, ...options.env };
    this.fetch = options.fetch ?? world.fetch;
    this.isTerminal = options.isTerminal ?? false;
  }

  /** Returns a machine without an account, in the given world or in one that ends with it. */
  static async open(given?: World, options: MachineOptions = {}): Promise<Machine> {
    const world = given ?? await World.open();
    const machine = new Machine(world, await Deno.makeTempDir({ prefix: "svc_cli_" }), options);
    if (given === undefined) machine.#ends = world;
    return machine;
  }

  /** Returns a machine whose person has an account. */
  static async ofPerson(given?: World, options: MachineOptions = {}): Promise<Machine> {
    const machine = await Machine.open(given, options);
    machine.env.SVC_API_KEY = (await machine.world.person()).apiKey;
    return machine;
  }

  /** Returns a machine of the first admin. */
  static async ofAdmin(given?: World, options: MachineOptions = {}): Promise<Machine> {
    const machine = await Machine.open(given, options);
    machine.env.SVC_API_KEY = (await machine.world.admin()).apiKey;
    return machine;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.dir, { recursive: true });
    await this.#ends?.[Symbol.asyncDispose]();
  }

  override async svc(...argv: string[]): Promise<Outcome> {
    const outcome: Outcome = { code: -1, stdout: "", stderr: "" };
    const { answers } = this;
    const world: CliWorld = {
      fetch: async (input: RequestInfo | URL, init?: RequestInit) => {
        const { method, url } = sentTo(input, init);
        this.requests.push(`${method} ${url.pathname}${url.search}`);
        return await this.fetch(input, init);
      },
      trusting: (pem) => {
        this.trusted.push(pem);
        return this.fetch;
      },
      ...(this.reach ? { reach: this.reach } : {}),
      ...(this.exec ? { exec: this.exec } : {}),
      clock: this.world.clock,
      random: this.world.random,
      terminal: {
        stdout: (text) => {
          if (outcome.stdout.length >= this.readsCharacters) return false;
          outcome.stdout += text;
          return true;
        },
        stderr: (text) => void (outcome.stderr += text),
        stdoutIsTerminal: this.isTerminal,
        stderrIsTerminal: this.isTerminal,
        columns: () => this.columns,
      },
      stdin: (maxBytes) => Promise.resolve(new TextEncoder().encode(this.stdin ?? "").slice(0, maxBytes)),
      stdinIsTerminal: this.stdin === null,
      confirm: answers === null ? null : (question) => {
        this.asked.push(question);
        return Promise.resolve(answers);
      },
      ask: this.types === null ? null : (question) => {
        this.asked.push(question);
        const line = this.types?.shift();
        return Promise.resolve(line === undefined ? "" : line);
      },
      interrupt: new Interrupt(this.world.clock),
      env: (name) => this.env[name] || undefined,
      ...(this.cwd === null ? {} : { cwd: this.cwd }),
      os: Deno.build.os,
      uid: Deno.uid(),
      pid: Deno.pid,
      version: "0.0.0-test",
    };
    outcome.code = await run(argv, world);
    return outcome;
  }

  /**
   * Answers the requests whose method and address match in place of the services, unless `answer` returns `null`.
   * Returns what ends that.
   */
  answer(what: RegExp, answer: () => Response | Promise<Response> | null): () => void {
    return this.#through(what, async (forward) => await (answer() ?? forward()));
  }

  /** Loses the answers to so many matching requests, after the services have applied each. Returns what ends that. */
  loseAnswers(what = /^/, times = Infinity): () => void {
    return this.#through(what, async (forward) => {
      const response = await forward();
      if (--times < 0) return response;
      await response.body?.cancel();
      throw new TypeError("connection reset");
    });
  }

  /** Changes the JSON of the answers to matching requests. Returns what ends that. */
  // deno-lint-ignore no-explicit-any
  changeAnswers(what: RegExp, change: (body: any) => unknown): () => void {
    return this.#through(what, async (forward) => {
      const response = await forward();
      return Response.json(await change(await response.json()), { status: response.status });
    });
  }

  #through(what: RegExp, answer: (forward: () => Promise<Response>) => Promise<Response>): () => void {
    const { fetch } = this;
    this.fetch = (input, init) => {
      const { method, url } = sentTo(input, init), forward = () => fetch(input, init);
      return what.test(`${method} ${url.origin}${url.pathname}`) ? answer(forward) : forward();
    };
    return () => this.fetch = fetch;
  }

  write(file: string, text: string): void {
    Deno.writeTextFileSync(this.path(file), text);
  }

  /** Every file below the folder with its content, and every directory. */
  tree(folder = ""): Record<string, string> {
    const found: Record<string, string> = {};
    for (const { name, isDirectory, isSymlink } of Deno.readDirSync(this.path(folder))) {
      const path = folder + name;
      if (isSymlink) found[path] = `-> ${Deno.readLinkSync(this.path(path))}`;
      else if (isDirectory) Object.assign(found, { [`${path}/`]: "" }, this.tree(`${path}/`));
      else found[path] = this.read(path);
    }
    return found;
  }
}

function sentTo(input: RequestInfo | URL, init: RequestInit = {}): { method: string; url: URL } {
  const { method = "GET", url } = input instanceof Request ? input : { method: init.method, url: input };
  return { method, url: new URL(url) };
}

/** Returns the first admin, created by the command itself. */
export async function bootstrapped(given?: World): Promise<Machine> {
  const machine = await Machine.open(given);
  machine.env.SVC_BOOTSTRAP_SECRET = BOOTSTRAP_SECRET;
  await machine.json("admin", "bootstrap");
  return machine;
}
