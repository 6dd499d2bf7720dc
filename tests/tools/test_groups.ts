/** The runs of `deno test` that a task names, each with its permissions. No other file lists the folders. */

export const GROUPS: Readonly<Record<string, readonly string[]>> = {
  unit: [
    "--no-prompt",
    "--reporter=dot",
    "--parallel",
    "--allow-read",
    "--allow-write",
    // Its tests open sockets.
    "--ignore=tests/shared/client",
    "tests/shared",
    "tests/registry",
    "tests/proxy",
    "tests/simulation",
  ],
  doc: ["--no-prompt", "--reporter=dot", "--doc", "--no-check", "--allow-read", "shared/protocol"],
  tools: [
    "--no-prompt",
    "--reporter=dot",
    "--parallel",
    "-A",
    "tests/tools",
    "tests/cli",
    "tests/shared/client",
    "tests/bench",
  ],
  // The suites whose tests open a store, each test with a denokv of its own (D-253).
  denokv: [
    "--no-prompt",
    "--reporter=dot",
    "--parallel",
    "-A",
    "tests/shared/server",
    "tests/registry",
    "tests/proxy",
    "--",
    "--store",
    "denokv",
  ],
  e2e: ["--no-prompt", "--reporter=dot", "--parallel", "-A", "tests/e2e"],
};
