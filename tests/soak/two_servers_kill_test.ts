/**
 * kill -9 of each of the six processes of two servers (two servers, two connectors, two commands) at random moments of pairing and
 * messaging (D-280, D-287): no half pair is left, no message that was acknowledged is lost, and none arrives twice. Forty kills;
 * `-- --trials n` sets another number, `-- --seed n` repeats moments.
 */
import { assert, assertEquals } from "@std/assert";
import { RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram, type Program } from "../cli/program.ts";
import { AMPLE_QUOTA_VARIABLES, ChildProcess, eventually, freePort, tempFolder, within } from "../support/process.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { printedSeed, trials } from "../support/trials.ts";

const START_MS = 60_000;
/** A pairing or a message takes about as long, a command that sends somewhat longer. */
const MOMENT_MS = 250;
const VICTIMS = ["server", "connector", "command"] as const;
type Victim = (typeof VICTIMS)[number];

/** One server with its agent. */
class Team {
  server!: ChildProcess;
  connector!: RunningConnector;
  /** Texts that the agent has read, in the order of its inbox. */
  readonly read: string[] = [];
  readonly acknowledged: string[] = [];
  readonly #url: string;

  private constructor(
    readonly program: Program,
    readonly dir: string,
    readonly agent: string,
    readonly address: string,
    readonly peer: string,
    port: number,
  ) {
    this.#url = `http://${address}:${port}`;
  }

  static async open(program: Program, dir: string, agent: string, address: string, peer: string): Promise<Team> {
    const team = new Team(program, dir, agent, address, peer, freePort());
    await Deno.mkdir(dir);
    await team.serve();
    const printed = team.server.stdout.match(/svc (admin bootstrap .*)\n/);
    const [, command = ""] = await within(START_MS, "the command of the first admin", printed);
    await svc(dir, command.split(" "), {}, program);
    await svc(dir, ["agent", "create", agent], {}, program);
    await team.connect();
    return team;
  }

  async serve(): Promise<void> {
    const port = new URL(this.#url).port, store = `${this.dir}/svc.kv`;
    const words = ["serve", "--host", this.address, "--port", port, "--public-url", this.#url, "--store", store];
    const env = { ...AMPLE_QUOTA_VARIABLES, AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "100000" };
    this.server = new ChildProcess(["run", "--quiet", "--no-prompt", "-P=svc", "svc.ts", ...words], env);
    await within(START_MS, "the server listens", this.server.stdout.match(/^listening on /m)).catch((cause) => {
      throw new Error(this.server.printed, { cause });
    });
  }

  async connect(): Promise<void> {
    this.connector = await RunningConnector.start(this.dir, this.agent, ["--inbox"], { program: this.program });
  }

  /** Sends by the command, which may be killed; counts what it acknowledged. */
  command(text: string): ChildProcess {
    const words = [...this.program.args, "send", this.peer, text, "--config-dir", this.dir];
    const child = new ChildProcess(words, {}, this.program.command);
    void child.status.then(({ code }) => void (code === 0 && this.acknowledged.push(text)));
    return child;
  }

  /** Sends by the connector, and counts what it acknowledged. */
  async send(text: string): Promise<void> {
    const body = { to: this.peer, text, keep: true, prefer: "respond-async" };
    const response = await this.connector.call("POST", "/v1/outbound", body).catch(() => null);
    const said = await response?.text().catch(() => null) ?? null;
    if (!response?.ok || said === null) return;
    const { accepted, state } = JSON.parse(said);
    if (accepted === true || ["kept", "queued", "delivered", "processed"].includes(state)) this.acknowledged.push(text);
  }

  async kill(victim: Victim, command?: ChildProcess): Promise<void> {
    await { server: this.server, connector: this.connector.child, command }[victim]?.end("SIGKILL");
    if (victim === "server") await this.serve();
    if (victim === "connector") await this.connect();
  }

  async isPaired(): Promise<boolean> {
    const { peers } = await this.connector.json("GET", "/v1/peers");
    // deno-lint-ignore no-explicit-any
    return peers.some((peer: any) => peer.alias === this.peer && peer.how === "ticket" && !peer.gone && !peer.removed);
  }

  /** Reads what waits, each message once. */
  async take(): Promise<void> {
    while (true) {
      const { messages } = await this.connector.json("GET", "/v1/inbox");
      if (messages.length === 0) return;
      this.read.push(...messages.map(({ text }: { text: string }) => text));
      await this.connector.json("POST", "/v1/inbox/read", { ids: messages.map(({ id }: { id: number }) => id) });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.connector[Symbol.asyncDispose]();
    await this.server[Symbol.asyncDispose]();
  }
}

Deno.test("two servers whose processes are killed while their agents pair and write leave no half pair, lose nothing and repeat nothing", async () => {
  const chance = numbersFrom(printedSeed()), rounds = trials(40);
  await using folder = await tempFolder();
  const program = await bundledProgram();
  await using a = await Team.open(program, `${folder.path}/a`, "alpha", "127.0.0.1", "beta@127.0.0.2");
  await using b = await Team.open(program, `${folder.path}/b`, "beta", "127.0.0.2", "alpha@127.0.0.1");
  const teams = [a, b] as const, kills: Record<string, number> = {};
  const pairAgain = async (ticket: string, what: string) => {
    // The person pastes the ticket again, and asks for another one where that says so.
    const again = await b.connector.call("POST", "/v1/pair/confirm", { ticket });
    assertEquals(again.status, 201, `${what}: ${await again.text()}`);
    await eventually(
      START_MS,
      `both know each other, ${what}`,
      async () => await a.isPaired() && await b.isPaired() || undefined,
    );
  };
  const ticketOf = async () => (await a.connector.json("POST", "/v1/pair/start", {})).ticket as string;
  const missing = () =>
    teams.flatMap((one, i) => one.acknowledged.filter((text) => !teams[1 - i]?.read.includes(text)));
  const allArrived = async () => {
    await eventually(START_MS, "each acknowledged message arrives", async () => {
      for (const one of teams) await one.take();
      return missing().length === 0 || undefined;
    }).catch(async (cause) => {
      const states = await Promise.all(teams.map(({ connector }) => connector.json("GET", "/v1/sent?limit=50")));
      throw new Error(`missing: ${missing().join(", ")} ${JSON.stringify(states)}`, { cause });
    });
  };
  await pairAgain(await ticketOf(), "before the first kill");
  for (let round = 0; round < rounds; round++) {
    const team = teams[Math.floor(chance() * 2)] ?? a, isPairing = chance() < 0.4;
    const victim = VICTIMS[Math.floor(chance() * (isPairing ? 2 : 3))] ?? "server", moment = MOMENT_MS * chance();
    const what = `round ${round}: ${victim} of ${team.agent}, ${Math.round(moment)} ms into ${
      isPairing ? "pairing" : "messages"
    }`;
    kills[`${victim} of ${team.agent}`] = (kills[`${victim} of ${team.agent}`] ?? 0) + 1;
    const pause = () => new Promise((resolve) => setTimeout(resolve, moment));
    if (isPairing) {
      // What waits for a peer ends with the pair, and its sender is told so.
      await allArrived();
      const remover = teams[Math.floor(chance() * 2)] ?? a;
      const removed = await remover.connector.call("POST", "/v1/pair/remove", { to: remover.peer });
      assertEquals(removed.status, 204, `${what}: ${await removed.text()}`);
      const ticket = await ticketOf();
      const first = b.connector.call("POST", "/v1/pair/confirm", { ticket }).then((said) => said.text()).catch(() =>
        ""
      );
      await pause();
      await team.kill(victim);
      await first;
      await eventually(
        START_MS,
        `the connectors are back, ${what}`,
        () => isOnline(a).then(async (is) => is && await isOnline(b) || undefined),
      );
      await pairAgain(ticket, what);
      continue;
    }
    const commands = teams.map((one) => one.command(`${one.agent} ${round} by command`));
    const sent = teams.flatMap((one) => [1, 2, 3].map((n) => one.send(`${one.agent} ${round}.${n}`)));
    // A command needs a while to start.
    if (victim === "command") await new Promise((resolve) => setTimeout(resolve, 2 * MOMENT_MS * chance()));
    await pause();
    await team.kill(victim, commands[teams.indexOf(team)]);
    await Promise.all([...sent, ...commands.map(({ status }) => status)]);
    for (const one of teams) await one.take();
  }
  await allArrived();
  for (const { read } of teams) assertEquals(read.length, new Set(read).size, "none arrives twice");
  const [ofA, ofB] = teams.map(({ acknowledged }) => acknowledged.length);
  console.log(JSON.stringify({ kills, acknowledged: [ofA, ofB], read: teams.map(({ read }) => read.length) }));
  assert((ofA ?? 0) + (ofB ?? 0) > 0);
});

async function isOnline(team: Team): Promise<boolean> {
  return (await team.connector.json("GET", "/v1/status")).connection.state === "connected";
}
