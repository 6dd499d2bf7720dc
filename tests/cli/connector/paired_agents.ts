/** Two paired agents of one person, with a server, and the person's shell. */
import { shellWord } from "../../../cli/terminal/output.ts";
import { Service, tempFolder, within } from "../../support/process.ts";
import { ended, type Program } from "../program.ts";
import type { Outcome } from "../svc_runner.ts";
import { pairedNames } from "../../e2e/harness.ts";
import { RunningConnector } from "./people.ts";

const END_MS = 90_000;

/** For a test that starts connectors often: each start makes a few requests, and an agent has 60 in a minute. */
export const MANY_STARTS = { AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "100000" };

/** Alpha and beta, paired, in one configuration folder, and the shell of their person. */
export class PairedAgents implements AsyncDisposable {
  private constructor(
    readonly program: Program,
    readonly service: Service,
    readonly folder: AsyncDisposable & { path: string },
  ) {}

  /**
   * @param env variables of the server
   * @param isKilled whether the server is a process that the test kills
   */
  static async open(
    program: Program,
    env: Record<string, string> = {},
    isKilled = false,
  ): Promise<PairedAgents> {
    const service = await (isKilled ? Service.open(env) : Service.here(env));
    const shell = new PairedAgents(program, service, await tempFolder());
    await pairedNames(shell.service, shell.dir, ["alpha", "beta"]);
    return shell;
  }

  get dir(): string {
    return this.folder.path;
  }

  #options(agent: string): Deno.CommandOptions {
    const env = { SVC_CONFIG_DIR: this.dir, SVC_AGENT: agent, NO_COLOR: "1", TERM: "xterm" };
    return { env, stdin: "null", stdout: "piped", stderr: "piped" };
  }

  /** The program as words of a shell. */
  get words(): string {
    return [this.program.command, ...this.program.args].map(shellWord).join(" ");
  }

  /** Runs a line of `sh`, in which `svc` is the program. */
  async run(agent: string, line: string): Promise<Outcome> {
    const args = ["-c", `svc() { ${this.words} "$@"; }\n${line}`];
    return await within(END_MS, line, ended(new Deno.Command("sh", { ...this.#options(agent), args }).spawn()));
  }

  /** Starts `svc` as a process. */
  spawn(agent: string, argv: readonly string[]): Deno.ChildProcess {
    const args = [...this.program.args, ...argv];
    return new Deno.Command(this.program.command, { ...this.#options(agent), args }).spawn();
  }

  /** Starts the connector of an agent that reads its messages. */
  connector(agent: string): Promise<RunningConnector> {
    return RunningConnector.start(this.dir, agent, ["--inbox"], { program: this.program });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.folder[Symbol.asyncDispose]();
    await this.service[Symbol.asyncDispose]();
  }
}
