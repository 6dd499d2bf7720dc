/**
 * Connectors that a person starts again after each kill: 40 kills with SIGKILL at random moments, and a server that is
 * stopped and started, while both agents write. Nothing is lost and nothing arrives twice. Needs tmux; `-- --trials n` sets the
 * kills, `-- --seed n` repeats their moments.
 */
import { assertEquals } from "@std/assert";
import { attempt } from "../cli/connector/people.ts";
import { bundledProgram, output } from "../cli/program.ts";
import { pairedNames } from "../e2e/harness.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { HAS_TMUX } from "../support/tmux_terminal.ts";
import { printedSeed, trials } from "../support/trials.ts";
import { Typist } from "../support/typist.ts";

const KILLS = trials(40);
/** The latest moment of a kill after the connector is online, milliseconds. */
const LATEST_MS = 3_000;
/** The server is stopped and started after each of so many kills. */
const SERVER_EVERY = 8;
const NAMES = ["alpha", "beta"] as const;
const program = await bundledProgram();

Deno.test({
  name: `${KILLS} kills of connectors and stops of their server lose no message, and none arrives twice`,
  ignore: !HAS_TMUX,
  async fn() {
    const chance = numbersFrom(printedSeed());
    await using service = await Service.open({ AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "100000" });
    await using folder = await tempFolder();
    const dir = folder.path;
    await pairedNames(service, dir, NAMES);
    await using alpha = await Typist.open(program, { dir });
    await using beta = await Typist.open(program, { dir });
    const typists = { alpha, beta };
    const start = async (name: keyof typeof typists) => {
      // The killed connector has left its view on the screen, which would pass for the new one's.
      await typists[name].run("true");
      await typists[name].type(`clear; svc connector start ${name}`);
      await typists[name].shown(new RegExp(`^${name} · online`));
    };
    for (const name of NAMES) await start(name);

    let isOver = false;
    const accepted: Record<string, string[]> = { alpha: [], beta: [] };
    /** Sends one message after the other, each again with its ID until it is accepted, as svc advises. */
    const write = async (from: string, to: string) => {
      for (let n = 1; !isOver; n++) {
        const text = `${from} ${n}`, id = `${from}-message-${n}`;
        const words = ["send", to, text, "--agent", from, "--request-id", id];
        while ((await attempt(dir, words, {}, program)).code !== 0);
        accepted[from]?.push(text);
      }
    };
    const writing = Promise.all([write("alpha", "beta"), write("beta", "alpha")]);
    for (let kill = 1; kill <= KILLS; kill++) {
      await new Promise((resolve) => setTimeout(resolve, chance() * LATEST_MS));
      const name = NAMES[Math.floor(chance() * 2)] ?? "alpha";
      const { pid } = JSON.parse(await Deno.readTextFile(`${dir}/agents/${name}/connector.json`));
      Deno.kill(pid, "SIGKILL");
      if (kill % SERVER_EVERY === 0) {
        await service.server.end(chance() < 0.5 ? "SIGTERM" : "SIGKILL");
        await service.restart(0);
      }
      await typists[name].ready();
      await start(name);
    }
    isOver = true;
    await writing;

    for (const [from, to] of [["alpha", "beta"], ["beta", "alpha"]] as const) {
      const texts = accepted[from] ?? [];
      const found = await eventually(180_000, `every message of ${from} is there`, async () => {
        const there = await received(dir, to);
        return there.length >= texts.length ? there : undefined;
      });
      console.log(`${texts.length} messages of ${from}`);
      assertEquals(found, texts);
    }
    for (const name of NAMES) await typists[name].quit();
  },
});

/** The texts that an agent has received, oldest first. */
async function received(dir: string, agent: string): Promise<string[]> {
  const words = ["log", "--agent", agent, "--export", "--config-dir", dir];
  const { stdout } = await output(program.command, [...program.args, ...words]);
  const lines = stdout.trim().split("\n").map((line) => JSON.parse(line));
  // The proxy has put the identity of the sender in front of each.
  return lines.filter(({ kind }) => kind === "received").map(({ payload }) => payload.message.split("\n").at(-1));
}
