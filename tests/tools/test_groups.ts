/**
 * The runs of `deno test` that a task names, each with its permissions, and the plans that the tasks run. No other file
 * lists the folders.
 */

/** A command of Deno, in most cases one run of `deno test`. */
export interface Group {
  args: readonly string[];
  /**
   * Folders whose test files share a few isolates. With one isolate for each file the gate needs a third more CPU, because
   * each loads the same modules and warms the same code again.
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
  /** Number of test files that run at the same time (default: one for each core). */
  jobs?: number;
}

const USUAL = ["test", "--no-prompt", "--no-check", "--reporter=dot", "--parallel"];

/** Without network and processes, so that a test that opens a socket by itself fails. */
function sandboxed(line: number, ...folders: readonly string[]): Group {
  return { args: [...USUAL, "--allow-read", "--allow-write"], folders, line };
}

function withProcesses(line: number, ...folders: readonly string[]): Group {
  return { args: [...USUAL, "-A"], folders, line };
}

/** Each test has a denokv of its own. */
function onDenokv(...paths: readonly string[]): Group {
  return { args: [...USUAL, "-A", ...paths, "--", "--store", "denokv"] };
}

export const GROUPS: Readonly<Record<string, Group>> = {
  check: { args: ["task", "--quiet", "check"], line: 75 },
  registry: sandboxed(42, "tests/registry"),
  proxy: sandboxed(75, "tests/proxy"),
  // The tests of the client open sockets: the group `cli` runs them.
  shared: { ...sandboxed(22, "tests/shared"), except: "tests/shared/client" },
  simulation: sandboxed(11, "tests/simulation"),
  doc: { args: [...USUAL, "--doc", "--allow-read", "shared/protocol"] },
  tools: withProcesses(10, "tests/tools"),
  cli: withProcesses(145, "tests/cli", "tests/shared/client", "tests/bench"),
  // These tests wait for processes more than they compute.
  e2e: { ...withProcesses(200, "tests/e2e"), isolates: 4, jobs: 4 },
  // Pages in Chromium. Its own CPU seconds count too. One isolate starts it once for all of them.
  browser: { ...withProcesses(62, "tests/browser"), isolates: 1 },
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
  // Every file of the folder. One after the other: beside each other, their measurements of memory and time would count the
  // load of their neighbours.
  soak: { args: [...USUAL, "-A", "tests/soak"], jobs: 1 },
  // Kills at every point instead of one, and the compiled binary beside the bundle.
  e2e_long: { args: [...USUAL, "-A", "tests/e2e", "--", "--trials", "20"] },
  seeds: { args: [...USUAL, "--allow-read", "--allow-write", "tests/simulation", "--", "--seeds", "200"] },
};

/** Stages that run one after the other. The lanes of a stage run at the same time, the groups of a lane do not. */
export type Plan = readonly (readonly (readonly string[])[])[];

const PURE = ["registry", "proxy", "shared", "simulation", "doc", "tools"];

export const PLANS: Readonly<Record<string, Plan>> = {
  test: [[[...PURE, "cli"]]],
  // The first three lanes need about the same CPU; the last one waits more than it computes, so no core waits for it.
  ok: [[["check", "cli"], PURE, ["e2e"], ["denokv_gate", "browser"]]],
  // The second lane computes while the tests of the first one wait for real minutes, because one lane takes over three hours.
  soak: [[["soak"], ["denokv", "e2e_long", "seeds"]]],
};
