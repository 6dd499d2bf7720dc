/**
 * Two people write while the network of one is away: a server and a laptop behind NAT, whose cable is pulled for five
 * minutes. Each message arrives once and in order, and every state that a person reads is true. Needs tmux and namespaces;
 * `-- --trials n` sets the minutes.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { bundledProgram } from "../cli/program.ts";
import { Person, START_MS } from "../e2e/machine_person.ts";
import { eventually, tempFolder, within } from "../support/process.ts";
import { HAS_TMUX } from "../support/tmux_terminal.ts";
import { trials } from "../support/trials.ts";
import { TwoMachines } from "../support/two_machines.ts";
import { Typist } from "../support/typist.ts";

const MINUTES = trials(5);
const MESSAGES = 10;
/**
 * Within this time after a cable is plugged in again, or pulled while someone writes, every state is true: a machine that does
 * nothing else needs 5 s and 14 s of it.
 */
const TRUE_MS = 10_000, LOST_MS = 30_000;
/** How long the commands that ask may take. */
const ASKING_MS = 60_000;
const program = await bundledProgram();

interface Sent {
  text: string;
  state: string;
  stateAt: string;
}

Deno.test({
  name: `both people write while a cable is pulled for ${MINUTES} min: each message arrives once, in order`,
  ignore: !HAS_TMUX,
  async fn(t) {
    await using machines = await TwoMachines.open();
    if (machines.kind === "one machine") return console.log("skipped: no network namespaces");
    await using folder = await tempFolder();
    const { server: here, laptop } = machines;
    const url = `http://${here.address}:8787`;
    const host = new Person(here, `${folder.path}/server`);
    await using server = host.start([
      ...["serve", "--host", here.address, "--public-url", url, "--store", `${folder.path}/svc.kv`],
    ]);
    await within(START_MS, "the server listens", server.stdout.match(/^listening on /m));
    const bootstrap = await within(START_MS, "the command", server.stdout.match(/svc admin bootstrap .*/));
    const [ada, bob] = [new Person(here, `${folder.path}/ada`), new Person(laptop, `${folder.path}/bob`)];
    const at = (person: Person) => Typist.open(person.machine.program(program), { dir: person.folder });
    await using adas = await at(ada);
    await using bobs = await at(bob);

    await t.step("what svc prints for the other person works when it is pasted, without another option", async () => {
      await adas.type(`${bootstrap[0]} --display-name Ada --agent alpha`);
      await adas.shown(/^Next: /);
      await adas.type("clear; svc connector start");
      await adas.shown(/ · online$/);
      await adas.press("i");
      const command = await eventually(START_MS, "the command", async () => {
        return (await adas.terminal.printed()).findLast((line) => line.startsWith("svc join '"));
      });
      assertMatch(command, /--allow-insecure/);
      await bobs.type(`${command} --display-name Bob --agent beta`);
      await bobs.shown(/Paired with alpha of Ada\./);
      await bobs.shown(/ · online$/);
    });

    const messages = (from: string) => Array.from({ length: MESSAGES }, (_, n) => `${from} ${n + 1}`);
    const write = async (typist: Typist, text: string) => {
      await typist.press("s");
      await typist.shown(/^to /);
      await typist.send(text);
      await typist.shown(new RegExp(`│ ${text}$`));
    };

    await t.step("what is written meanwhile waits, and the view says where", async () => {
      assert(await machines.setLink(false));
      const back = performance.now() + MINUTES * 60_000;
      for (const [n, text] of messages("from Ada").entries()) {
        await write(adas, text);
        await write(bobs, messages("from Bob")[n] ?? "");
      }
      assert((await adas.terminal.printed()).some((line) => /to beta waits at the server/.test(line)));
      const lost = (lines: string[]) => lines.some((line) => line.endsWith("The link is lost. Messages wait."));
      const said = await eventually(
        LOST_MS,
        "the view says that the link is lost, and of each message that it waits",
        async () => {
          const lines = await bobs.terminal.printed();
          const waiting = lines.filter((line) => /to alpha waits here/.test(line));
          return lost(lines) && waiting.length === MESSAGES ? lines : undefined;
        },
      );
      assert(!said.some((line) => line.includes("sent again")), "an attempt is no news");
      const sent = await states(bob);
      assertEquals(
        sent.filter(({ state }) => state !== "kept"),
        [],
        "nothing of a machine without a network has left it",
      );
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, back - performance.now())));
      await machines.setLink(true);
    });

    await t.step("all of them arrive once and in order, and each sender reads so", async () => {
      const up = Date.now();
      const known = await Promise.all(
        [ada, bob].map((person) =>
          eventually(ASKING_MS, "every state is true", async () => {
            const sent = await states(person);
            return sent.every(({ state }) => state === "delivered") ? sent : undefined;
          })
        ),
      );
      const ms = Math.max(...known.flat().map(({ stateAt }) => Date.parse(stateAt))) - up;
      console.log(`the states were true ${ms} ms after the cable was plugged in`);
      assertEquals(await received(bob), messages("from Ada"));
      assertEquals(await received(ada), messages("from Bob"));
      assert(ms <= TRUE_MS, `${ms} ms`);
      await bobs.shown(/Online again after /);
      await adas.quit();
      await bobs.quit();
    });
    assertEquals((await server.end()).code, 0);
  },
});

/** The texts that wait for a person, oldest first. */
async function received(person: Person): Promise<string[]> {
  return JSON.parse(await person.svc("inbox", "--json")).messages.map(({ text }: { text: string }) => text);
}

async function states(person: Person): Promise<Sent[]> {
  return JSON.parse(await person.svc("sent", "--json")).messages;
}
