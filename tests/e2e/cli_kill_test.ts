/**
 * `svc agent create` and `svc agent auth refresh` killed before some of their operations, and run twice at once (D-83). The
 * identity is never lost, the name stays usable, and the next refresh succeeds. `-- --trials n` kills before every operation
 * and n times at random moments, there with the compiled program when there is one.
 */
import { assert, assertEquals } from "@std/assert";
import { attemptHere } from "../cli/connector/people.ts";
import { Place } from "../cli/place.ts";
import { bundledProgram, dyingProgram, ended, Machine, programs, TRIALS } from "../cli/program.ts";
import { IS_LONG } from "../support/trials.ts";

const SIGKILL = 128 + 9;
const TOO_MANY = 500;
/** Number of trials at a time, each on a machine of its own. */
const LANES = IS_LONG ? 4 : 2;
/** Every operation with `-- --trials n`, else each n-th one: a creation has more of them. */
const STRIDE = { create: IS_LONG ? 1 : 60, refresh: IS_LONG ? 1 : 20 };

const CREATE = ["agent", "create", "alpha"];
const REFRESH = ["agent", "auth", "refresh", "alpha"];

const place = await Place.open();
Deno.test.afterAll(() => place[Symbol.asyncDispose]());
/** Place and server are there before a test and after it. */
const SHARED = { sanitizeResources: false, sanitizeOps: false };

const bundled = await bundledProgram();
const dying = await dyingProgram();
const program = (await programs()).at(-1) ?? bundled;

/**
 * Runs trials with growing numbers, some at a time, until one reports that it was the last.
 * @returns the number before the last
 */
async function trials(
  lanes: number,
  trial: (n: number, lane: number) => Promise<"last" | void>,
  stride = STRIDE.refresh,
): Promise<number> {
  let next = Math.ceil(stride / 2);
  let last = Infinity;
  const runs = await Promise.allSettled(Array.from({ length: lanes }, async (_, lane) => {
    while (next < last) {
      const n = next;
      next += stride;
      try {
        if (await trial(n, lane) === "last") last = Math.min(last, n);
      } catch (error) {
        last = 0;
        throw error;
      }
    }
  }));
  const failure = runs.find((run) => run.status === "rejected");
  if (failure) throw failure.reason;
  return last - 1;
}

/** `TRIALS` trials. */
const randomTrials = (lanes: number, trial: (n: number, lane: number) => Promise<void>) =>
  trials(lanes, async (n, lane) => n > TRIALS ? "last" : await trial(n, lane), 1);

/**
 * Runs a command that is not the one to be killed: in the gate in this process, because the start of a process takes ten times
 * the CPU of the command.
 */
async function beside(machine: Machine, argv: readonly string[]): Promise<{ code: number; stderr: string }> {
  if (IS_LONG) return await machine.svc(...argv);
  const { code, error } = await attemptHere(machine.dir, argv, machine.env);
  return { code, stderr: JSON.stringify(error) };
}

/** The same for a command that must succeed. */
async function done(machine: Machine, argv: readonly string[]): Promise<void> {
  const { code, stderr } = await beside(machine, argv);
  assertEquals(code, 0, stderr);
}

/** Machines with the agent alpha, one a lane. */
async function machinesWithAlpha(stack: AsyncDisposableStack, place: Place, lanes: number): Promise<Machine[]> {
  return await Promise.all(Array.from({ length: lanes }, async () => {
    const machine = stack.use(await Machine.open(program, await place.newKey()));
    await done(machine, CREATE);
    return machine;
  }));
}

async function killedAt(machine: Machine, n: number, argv: string[]): Promise<boolean> {
  assert(n < TOO_MANY);
  const { command, args } = dying(n);
  const child = new Deno.Command(command, { args: [...args, ...argv], env: machine.env, stdin: "null" });
  const { code, stderr } = await child.output();
  const output = `${argv.join(" ")} at ${n} ended with ${code}\n${new TextDecoder().decode(stderr)}`;
  assert(code === 0 || code === SIGKILL, output);
  return code === SIGKILL;
}

/** Starts a command and kills it at a random moment of its usual duration. */
async function killedAtRandom(machine: Machine, usualMs: number, argv: string[]): Promise<boolean> {
  const child = machine.spawn(argv);
  const timer = setTimeout(() => {
    try {
      child.kill("SIGKILL");
    } catch { /** It has just exited. */ }
  }, Math.random() * usualMs);
  const { code } = await ended(child);
  clearTimeout(timer);
  assert(code === 0 || code === SIGKILL, `${argv.join(" ")} ended with ${code}`);
  return code === SIGKILL;
}

/** Duration of a command while others run at the same time. */
async function usual(runs: readonly (() => Promise<unknown>)[]): Promise<number> {
  const began = performance.now();
  const times = await Promise.all(runs.map(async (run) => {
    await run();
    return performance.now() - began;
  }));
  return times.reduce((sum, ms) => sum + ms, 0) / times.length;
}

/** Asserts that the agent exists and works, with any interruption of its creation. */
async function becomesUsable(place: Place, machine: Machine, what: string): Promise<void> {
  const { code, stderr } = await beside(machine, CREATE);
  if (code !== 0) assert(stderr.includes("CLI_AGENT_EXISTS"), `${what}: ${stderr}`);
  await done(machine, REFRESH);
  assert(await place.works(machine, "alpha"), what);
  const left = Object.keys(machine.modes()).filter((path) => path.includes(".pending"));
  assertEquals(left, [], `${what}: no leftovers`);
}

Deno.test("agent create recovers when it is killed before any of its operations", SHARED, async () => {
  place.tamper = null;
  const keys = await Promise.all(Array.from({ length: LANES }, () => place.newKey()));
  const points = await trials(LANES, async (n, lane) => {
    await using machine = await Machine.open(bundled, keys[lane] ?? place);
    if (!await killedAt(machine, n, CREATE)) return "last";
    await becomesUsable(place, machine, `killed before operation ${n}`);
  }, STRIDE.create);
  assert(points > 40, `${points} points`);
  console.log(`agent create: killed at ${points} points`);
});

Deno.test("agent auth refresh recovers when it is killed before any of its operations", SHARED, async () => {
  place.tamper = null;
  await using stack = new AsyncDisposableStack();
  const machines = await machinesWithAlpha(stack, place, LANES);
  const points = await trials(LANES, async (n, lane) => {
    const machine = machines[lane] as Machine;
    if (!await killedAt(machine, n, REFRESH)) return "last";
    await done(machine, REFRESH);
    assert(await place.works(machine, "alpha"), `killed before operation ${n}`);
  });
  assert(points > 15, `${points} points`);
  console.log(`agent auth refresh: killed at ${points} points`);
});

Deno.test(`${program.name}: two concurrent refreshes leave a live token pair in every round`, SHARED, async () => {
  place.tamper = null;
  await using stack = new AsyncDisposableStack();
  const machines = await machinesWithAlpha(stack, place, LANES / 2);
  await randomTrials(LANES / 2, async (round, lane) => {
    const machine = machines[lane] as Machine;
    const both = await Promise.all([1, 2].map(() => machine.json(...REFRESH)));
    assert(both.some(({ how }) => how === "refreshed"), `round ${round}`);
    assert(await place.works(machine, "alpha"), `round ${round}`);
  });
});

/** The PID in the lock file of a refresh, or `""`. */
function lockHolder(machine: Machine): string {
  const locks = Object.keys(machine.modes()).filter((path) => path.endsWith(".lock"));
  return locks.map((path) => machine.read(path).trim()).find((pid) => pid !== "") ?? "";
}

/** Runs a refresh that kills itself at step `n`, and another that starts while the first holds the lock. */
async function refreshBehindVictim(place: Place, machine: Machine, n: number): Promise<"last" | void> {
  const survivorStarted = Promise.withResolvers<void>();
  place.tamper = async (_request, forward) => {
    const response = await forward();
    await survivorStarted.promise;
    return response;
  };
  const { command, args } = dying(n);
  const victim = new Deno.Command(command, {
    args: [...args, ...REFRESH],
    env: machine.env,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  let hasEnded = false;
  const status = victim.status.finally(() => hasEnded = true);
  while (!hasEnded && lockHolder(machine) !== String(victim.pid)) await new Promise((done) => setTimeout(done, 5));
  const survivor = beside(machine, REFRESH);
  survivorStarted.resolve();
  const [{ code }, { code: survivorCode, stderr }] = await Promise.all([status, survivor]);
  assertEquals(survivorCode, 0, stderr);
  assert(await place.works(machine, "alpha"), `victim killed at step ${n}`);
  if (code !== SIGKILL) return "last";
}

Deno.test(
  `${program.name}: agent auth refresh gets working tokens when the holder of the lock is killed`,
  SHARED,
  async () => {
    place.tamper = null;
    await using stack = new AsyncDisposableStack();
    const [machine] = await machinesWithAlpha(stack, place, 1) as [Machine];
    const points = await trials(1, async (n) => {
      assert(n < TOO_MANY);
      return await refreshBehindVictim(place, machine, n);
    });
    assert(points > 15, `${points} points`);
  },
);

Deno.test(
  `${program.name}: one of several concurrent creations of an agent wins, and one agent exists`,
  SHARED,
  async () => {
    place.tamper = null;
    await using machine = await Machine.open(program, place);
    for (let round = 1; round <= Math.ceil(TRIALS / 4); round++) {
      const name = `agent-${round}`;
      const outcomes = await Promise.all([1, 2, 3].map(() => machine.svc("agent", "create", name)));
      assertEquals(outcomes.map(({ code }) => code).sort(), [0, 1, 1]);
      const { agents } = await machine.json("agent", "list", "--limit", "100");
      assertEquals(agents.filter((agent: { name: string }) => agent.name === name).length, 1);
      await done(machine, ["agent", "auth", "refresh", name]);
    }
  },
);

if (IS_LONG) {
  Deno.test(`${program.name}: agent create recovers when it is killed at random moments`, SHARED, async () => {
    place.tamper = null;
    const keys = await Promise.all(Array.from({ length: LANES }, () => place.newKey()));
    const usualMs = await usual(keys.map((key) => async () => {
      await using machine = await Machine.open(program, key);
      await machine.json(...CREATE);
    }));
    let killed = 0;
    await randomTrials(LANES, async (trial, lane) => {
      await using machine = await Machine.open(program, keys[lane] ?? place);
      // Sometimes twice: resuming must be as robust as the first run.
      for (let i = 0; i <= trial % 3; i++) {
        if (machine.exists("agents/alpha")) break;
        if (await killedAtRandom(machine, usualMs, CREATE)) killed++;
      }
      await becomesUsable(place, machine, `trial ${trial}`);
      assertEquals((await machine.json("agent", "inspect", "alpha")).verified, true);
    });
    console.log(`${program.name}: agent create killed ${killed} times in ${TRIALS} trials`);
    assert(killed > 0);
  });

  Deno.test(`${program.name}: agent auth refresh recovers when it is killed at random moments`, SHARED, async () => {
    place.tamper = null;
    await using stack = new AsyncDisposableStack();
    const machines = await machinesWithAlpha(stack, place, LANES);
    const usualMs = await usual(machines.map((machine) => () => machine.json(...REFRESH)));
    let killed = 0;
    await randomTrials(LANES, async (trial, lane) => {
      const machine = machines[lane] as Machine;
      for (let i = 0; i <= trial % 3; i++) if (await killedAtRandom(machine, usualMs, REFRESH)) killed++;
      await machine.json(...REFRESH);
      assert(await place.works(machine, "alpha"), `trial ${trial}`);
    });
    console.log(`${program.name}: agent auth refresh killed ${killed} times in ${TRIALS} trials`);
    assert(killed > 0);
  });

  Deno.test(`${program.name}: agent auth refresh recovers when a concurrent refresh is killed`, SHARED, async () => {
    place.tamper = null;
    await using stack = new AsyncDisposableStack();
    const machines = await machinesWithAlpha(stack, place, LANES / 2);
    const usualMs = await usual(machines.map((machine) => () => machine.json(...REFRESH)));
    await randomTrials(LANES / 2, async (round, lane) => {
      const machine = machines[lane] as Machine;
      const [, survivor] = await Promise.all([
        killedAtRandom(machine, usualMs * 2, REFRESH),
        machine.svc(...REFRESH),
      ]);
      assertEquals(survivor.code, 0, survivor.stderr);
      // The killed process may have started after the survivor ended, and died before it saved its tokens.
      await machine.json(...REFRESH);
      assert(await place.works(machine, "alpha"), `round ${round}`);
    });
  });
}
