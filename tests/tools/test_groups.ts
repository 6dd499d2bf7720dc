/**
 * The runs of `deno test` that a task names, each with its permissions, and the plans that the tasks run. No other file
 * lists the folders.
 */

/** A command of Deno, in most cases one run of `deno test`. */
export interface Group {
  args: readonly string[];
  /**
   * Folders whose test files share a few isolates. With one isolate for each file the gate needs a third more CPU, and with
   * two for each folder a tenth, because each loads the same modules and warms the same code again.
   */
  folders?: readonly string[];
  /** Number of these isolates (default: one for each core of the gate). */
  isolates?: number;
  /** A folder below them that another group runs. */
  except?: string;
  /**
   * Seconds of CPU, at most 660 for all. The report names a group that needs more, because the gate has six minutes on two
   * cores.
   */
  line?: number;
  /**
   * The temporary files are in memory, where the system has a folder for that: on a disk, each commit of a test's database
   * costs ten times the CPU. For tests in the process of the run only: Deno refuses that folder to a program that does not
   * have every permission, so a server that a test starts could not keep its store there.
   */
  filesInMemory?: boolean;
  /** Number of test files that run at the same time (default: one for each core). */
  jobs?: number;
}

const USUAL = ["test", "--no-prompt", "--no-check", "--reporter=dot", "--parallel"];

function withProcesses(line: number, ...folders: readonly string[]): Group {
  return { args: [...USUAL, "-A"], folders, line };
}

/** Each test has a denokv of its own. */
function onDenokv(...paths: readonly string[]): Group {
  return { args: [...USUAL, "-A", ...paths, "--", "--store", "denokv"] };
}

const WAITING = ["prometheus", "prometheus_faults", "day_two_network"].map((name) => `tests/soak/${name}_test.ts`);

export const GROUPS: Readonly<Record<string, Group>> = {
  check: { args: ["task", "--quiet", "check"], line: 55 },
  // Without network and processes, so that a test that opens a socket by itself fails. The tests of the client open sockets:
  // the group `cli` runs them.
  sandboxed: {
    args: [...USUAL, "--allow-read", "--allow-write"],
    folders: ["tests/registry", "tests/proxy", "tests/shared", "tests/simulation"],
    except: "tests/shared/client",
    line: 125,
  },
  doc: { args: [...USUAL, "--doc", "--allow-read", "shared/protocol"] },
  // Apart from the group `cli`: a process that starts holds the locks of the other isolates for a moment, and a command with
  // a clock that stands still would wait for one without end.
  tools: withProcesses(12, "tests/tools"),
  cli: { ...withProcesses(140, "tests/cli", "tests/shared/client", "tests/bench"), filesInMemory: true },
  // These tests wait for processes more than they compute.
  e2e: {
    ...withProcesses(145, "tests/e2e"),
    args: [...USUAL, "-A", "--", "--bundled"],
    isolates: 4,
    jobs: 4,
  },
  // Pages in Chromium. Its own CPU seconds count too. One isolate starts it once for all of them.
  browser: { ...withProcesses(52, "tests/browser"), isolates: 1 },
  // The suites whose tests open a store, on denokv: --store denokv. With their long tests, because no other group has them.
  denokv: { args: [...onDenokv("tests/shared/server", "tests/registry", "tests/proxy").args, "--trials", "20"] },
  // The part of them that the gate runs.
  denokv_gate: {
    ...onDenokv(
      "tests/proxy/relay/instances_test.ts",
      "tests/proxy/relay/revalidation_test.ts",
      "tests/registry/revocation",
    ),
    line: 14,
  },
  // One file after the other: beside each other, their measurements of memory and time would count the load of their
  // neighbours.
  soak: { args: [...USUAL, "-A", `--ignore=${WAITING}`, "tests/soak"], jobs: 1 },
  // The files of the folder that measure nothing and wait for minutes, so they run at the same time.
  soak_waits: { args: [...USUAL, "-A", ...WAITING], jobs: WAITING.length },
  // Kills at every point instead of one, and the compiled binary beside the bundle.
  e2e_long: { args: [...USUAL, "-A", "tests/e2e", "--", "--trials", "20"] },
  seeds: { args: [...USUAL, "--allow-read", "--allow-write", "tests/simulation", "--", "--seeds", "200"] },
};

/** Stages that run one after the other. The lanes of a stage run at the same time, the groups of a lane do not. */
export type Plan = readonly (readonly (readonly string[])[])[];

export const PLANS: Readonly<Record<string, Plan>> = {
  test: [[["sandboxed", "doc", "tools", "cli"]]],
  // The first three lanes need about the same CPU; the last one waits more than it computes, so no core waits for it.
  ok: [[["check", "cli"], ["sandboxed", "doc", "tools"], ["e2e"], ["denokv_gate", "browser"]]],
  // The second lane computes while the tests of the first one wait for real minutes, because one lane takes over two hours.
  soak: [[["soak"], ["denokv", "e2e_long", "seeds", "soak_waits"]]],
};
