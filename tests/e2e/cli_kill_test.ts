/**
 * `svc agent create` and `svc agent auth refresh`, killed: at every single thing they do, one by one, and at random
 * moments; and run twice at once (CHECKS M08, M10; D-82, D-83). The identity is never lost, the name never stuck, the
 * next refresh always works. More with `-- --trials n`.
 */
import { assert, assertEquals } from "@std/assert";
import { Place } from "../cli/place.ts";
import { ended, Machine, type Program, programs, SOURCE, TRIALS } from "../cli/program.ts";

const KILL_AT = decodeURIComponent(new URL("../cli/kill_at.ts", import.meta.url).pathname);
const SIGKILL = 128 + 9;
const TOO_MANY = 500;

/** The same machine, but `svc` dies at the n-th thing that it does. */
function dyingAt(machine: Machine, n: number): Program {
  return { ...machine.program, args: ["run", "--quiet", "-A", KILL_AT, String(n)] };
}

async function killedAt(machine: Machine, n: number, argv: string[]): Promise<boolean> {
  const program = dyingAt(machine, n);
  const command = new Deno.Command(program.command, { args: [...program.args, ...argv], env: machine.env });
  const { code, stderr } = await command.output();
  assert(
    code === 0 || code === SIGKILL,
    `${argv.join(" ")} at ${n} ended with ${code}\n${new TextDecoder().decode(stderr)}`,
  );
  return code === SIGKILL;
}

/** The agent is there and works, whatever happened to its creation before. */
async function becomesUsable(place: Place, machine: Machine, name: string, what: string): Promise<void> {
  const { code, stderr } = await machine.svc("agent", "create", name);
  if (code !== 0) assert(stderr.includes("CLI_AGENT_EXISTS"), `${what}: ${stderr}`);
  assertEquals((await machine.json("agent", "inspect", name)).verified, true, what);
  await machine.json("agent", "auth", "refresh", name);
  assert(await place.works(machine, name), what);
  const left = Object.keys(machine.modes()).filter((path) => path.includes(".pending"));
  assertEquals(left, [], `${what}: nothing is left over`);
}

Deno.test("agent create can be killed before every single thing it does (M08)", async () => {
  await using place = await Place.open();
  let points = 0;
  for (let n = 1; n < TOO_MANY; n++) {
    await using machine = await Machine.open(SOURCE, place);
    if (!await killedAt(machine, n, ["agent", "create", "alpha"])) break;
    points++;
    await becomesUsable(place, machine, "alpha", `killed before thing ${n}`);
  }
  assert(points > 40 && points < TOO_MANY - 2, `${points} points`);
  console.log(`agent create: killed at ${points} points`);
});

Deno.test("agent auth refresh can be killed before every single thing it does (D-83)", async () => {
  await using place = await Place.open();
  await using machine = await Machine.open(SOURCE, place);
  await machine.json("agent", "create", "alpha");
  let points = 0;
  for (let n = 1; n < TOO_MANY; n++) {
    if (!await killedAt(machine, n, ["agent", "auth", "refresh", "alpha"])) break;
    points++;
    await machine.json("agent", "auth", "refresh", "alpha");
    assert(await place.works(machine, "alpha"), `killed before thing ${n}`);
  }
  assert(points > 15 && points < TOO_MANY - 2, `${points} points`);
  console.log(`agent auth refresh: killed at ${points} points`);
});

for (const program of await programs()) {
  /** Starts a command and kills it after a part of the time that it usually takes. */
  const killedAtRandom = async (machine: Machine, usualMs: number, argv: string[]): Promise<boolean> => {
    const child = machine.spawn(argv);
    const timer = setTimeout(() => {
      try {
        child.kill("SIGKILL");
      } catch { /* it has just ended by itself */ }
    }, Math.random() * usualMs);
    const { code } = await ended(child);
    clearTimeout(timer);
    assert(code === 0 || code === SIGKILL, `${argv.join(" ")} ended with ${code}`);
    return code === SIGKILL;
  };
  const usual = async (run: () => Promise<unknown>): Promise<number> => {
    const began = performance.now();
    await run();
    return (performance.now() - began) * 1.1;
  };

  Deno.test(`${program.name}: agent create killed at random moments (M08)`, async () => {
    await using place = await Place.open();
    await using first = await Machine.open(program, place);
    await first.json("config", "init");
    const usualMs = await usual(() => first.json("agent", "create", "first"));
    let killed = 0;
    for (let trial = 1; trial <= TRIALS; trial++) {
      await using machine = await Machine.open(program, place);
      // Now and then twice: going on must not be more fragile than beginning.
      for (let i = 0; i <= trial % 3; i++) {
        if (machine.exists("agents/alpha")) break;
        if (await killedAtRandom(machine, usualMs, ["agent", "create", "alpha"])) killed++;
      }
      await becomesUsable(place, machine, "alpha", `trial ${trial}`);
    }
    console.log(`${program.name}: agent create killed ${killed} times in ${TRIALS} trials`);
    assert(killed >= TRIALS / 2, `${killed} killed`);
  });

  Deno.test(`${program.name}: agent auth refresh killed at random moments (D-83)`, async () => {
    await using place = await Place.open();
    await using machine = await Machine.open(program, place);
    await machine.json("agent", "create", "alpha");
    const usualMs = await usual(() => machine.json("agent", "auth", "refresh", "alpha"));
    let killed = 0;
    for (let trial = 1; trial <= TRIALS; trial++) {
      for (let i = 0; i <= trial % 3; i++) {
        if (await killedAtRandom(machine, usualMs, ["agent", "auth", "refresh", "alpha"])) killed++;
      }
      await machine.json("agent", "auth", "refresh", "alpha");
      assert(await place.works(machine, "alpha"), `trial ${trial}`);
    }
    console.log(`${program.name}: agent auth refresh killed ${killed} times in ${TRIALS} trials`);
    assert(killed >= TRIALS / 2, `${killed} killed`);
  });

  Deno.test(`${program.name}: two refreshes at once leave a live pair, round after round (M10)`, async () => {
    await using place = await Place.open();
    await using machine = await Machine.open(program, place);
    await machine.json("agent", "create", "alpha");
    for (let round = 1; round <= TRIALS; round++) {
      const both = await Promise.all([1, 2].map(() => machine.json("agent", "auth", "refresh", "alpha")));
      assert(both.some(({ how }) => how === "refreshed"), `round ${round}`);
      assert(await place.works(machine, "alpha"), `round ${round}`);
    }
  });

  Deno.test(`${program.name}: a refresh that is killed beside another does not disturb it`, async () => {
    await using place = await Place.open();
    await using machine = await Machine.open(program, place);
    await machine.json("agent", "create", "alpha");
    const usualMs = await usual(() => machine.json("agent", "auth", "refresh", "alpha"));
    for (let round = 1; round <= TRIALS; round++) {
      const refresh = ["agent", "auth", "refresh", "alpha"];
      const [, survivor] = await Promise.all([
        killedAtRandom(machine, usualMs * 2, refresh),
        machine.svc(...refresh),
      ]);
      assertEquals(survivor.code, 0, survivor.stderr);
      assert(await place.works(machine, "alpha"), `round ${round}`);
    }
  });

  Deno.test(`${program.name}: of several that create the same agent at once one wins, and there is one agent`, async () => {
    await using place = await Place.open();
    await using machine = await Machine.open(program, place);
    for (let round = 1; round <= Math.ceil(TRIALS / 4); round++) {
      const name = `agent-${round}`;
      const outcomes = await Promise.all([1, 2, 3].map(() => machine.svc("agent", "create", name)));
      assertEquals(outcomes.map(({ code }) => code).sort(), [0, 1, 1]);
      const { agents } = await machine.json("agent", "list", "--limit", "100");
      assertEquals(agents.filter((agent: { name: string }) => agent.name === name).length, 1);
      await machine.json("agent", "auth", "refresh", name);
    }
  });
}
