/**
 * `svc mcp install` killed just before its file operations: the host's file has its old or its new text, the next run
 * completes it, and `--undo` restores it and leaves no copy.
 */
import { assert, assertEquals } from "@std/assert";
import { CASES, give, type HostCase, hostMachine, pathOf, textOf } from "../cli/hosts/host_world.ts";
import { dyingProgram, type Program } from "../cli/program.ts";
import type { Machine } from "../cli/cli_world.ts";
import { IS_LONG, longTest } from "../support/trials.ts";

const SIGKILL = 128 + 9;
const TOO_MANY = 200;
/** Number of trials at a time, each on a machine of its own. */
const LANES = IS_LONG ? 3 : 1;
/** Every operation with `-- --trials n`, else every fortieth one from a random one on. */
const STRIDE = IS_LONG ? 1 : 40;
const HOOKS = '{\n  // Mine\n  "hooks": { "Stop": [ { "hooks": [] }, ] }\n}\n';

const dying = await dyingProgram();

/** A machine of a test; the commands that die have its home. */
class Lane {
  /** The texts after a run that was not killed. */
  written: string[] = [];

  constructor(readonly machine: Machine, readonly one: HostCase, readonly words: readonly string[]) {}

  get files(): string[] {
    return [pathOf(this.machine, this.one), this.machine.path("home/.claude/settings.json")];
  }

  async reset(): Promise<void> {
    await give(this.machine, this.one, textOf(this.one), 0o600);
    this.machine.write("home/.claude/settings.json", HOOKS);
    const agent = this.machine.path("home/.config/svc/agents/alpha");
    for (const name of ["hosts.json", "backups", "runtime.json"]) {
      await Deno.remove(`${agent}/${name}`, { recursive: true }).catch(() => {});
    }
  }

  /** Runs the command, which is killed before its n-th operation. Returns true when it was. */
  async killedAt(n: number, ...more: string[]): Promise<boolean> {
    assert(n < TOO_MANY);
    const { command, args }: Program = dying(n);
    const env = { HOME: this.machine.path("home"), SVC_CONFIG_DIR: this.machine.path("home/.config/svc") };
    const child = new Deno.Command(command, { args: [...args, ...this.words, ...more], env, stdin: "null" });
    const { code, stderr } = await child.output();
    assert(code === 0 || code === SIGKILL, `at ${n}: ${code} ${new TextDecoder().decode(stderr)}`);
    return code === SIGKILL;
  }

  texts(): string[] {
    return this.files.map((path) => Deno.readTextFileSync(path));
  }

  /** Asserts that each file has one of two texts. */
  assertOneOf(old: readonly string[], written: readonly string[], what: string): void {
    this.texts().forEach((text, i) => assert(text === old[i] || text === written[i], `${what}\n${text}`));
  }
}

/** Runs trials until one is not killed. Returns the number of operations. */
async function trials(lanes: readonly Lane[], trial: (lane: Lane, n: number) => Promise<boolean>): Promise<number> {
  let [next, last] = [1 + Math.floor(Math.random() * STRIDE), Infinity];
  await Promise.all(lanes.map(async (lane) => {
    while (next < last) {
      const n = next;
      next += STRIDE;
      if (!await trial(lane, n)) last = Math.min(last, n);
    }
  }));
  return last - 1;
}

for (const [host, ...more] of [["claude-code", "--wake", "auto"], ["codex"]]) {
  // Both go the same way, with texts of another format.
  const test = host === "codex" ? longTest : Deno.test;
  test(`${host}: a kill at any moment leaves the old or the new text, and the next run and undo work`, async () => {
    await using stack = new AsyncDisposableStack();
    const one = CASES.find((row) => row.host === host && row.scope === "user") as HostCase;
    const words = ["mcp", "install", "alpha", "--for", one.host, ...more];
    const lanes: Lane[] = [];
    for (let i = 0; i < LANES; i++) {
      const lane = new Lane(stack.use(await hostMachine()), one, words);
      await lane.reset();
      assertEquals(await lane.killedAt(TOO_MANY - 1), false);
      lane.written = lane.texts();
      lanes.push(lane);
    }
    const old = [textOf(one), HOOKS];
    const installs = await trials(lanes, async (lane, n) => {
      await lane.reset();
      const isKilled = await lane.killedAt(n);
      lane.assertOneOf(old, lane.written, `install killed at ${n}`);
      await lane.machine.json(...words);
      await lane.machine.json(...words, "--undo");
      assertEquals(lane.texts(), old, `install killed at ${n}`);
      assertEquals([...Deno.readDirSync(lane.machine.path("home/.config/svc/agents/alpha/backups"))], []);
      return isKilled;
    });
    const removals = await trials(lanes, async (lane, n) => {
      await lane.reset();
      await lane.machine.json(...words);
      const written = lane.texts();
      const isKilled = await lane.killedAt(n, "--undo");
      lane.assertOneOf(old, written, `undo killed at ${n}`);
      await lane.machine.json(...words, "--undo");
      assertEquals(lane.texts(), old, `undo killed at ${n}`);
      return isKilled;
    });
    assert(installs > 20 && removals > 10, `${installs} and ${removals} operations`);
    console.log(`${host}: install killed at ${installs} points, undo at ${removals}`);
  });
}
