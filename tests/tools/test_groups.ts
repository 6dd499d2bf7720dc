/** The runs of `deno test` that a task names, each with its permissions. No other file lists the folders. */

function onDenokv(...paths: readonly string[]): readonly string[] {
  return ["--no-prompt", "--reporter=dot", "--parallel", "-A", ...paths, "--", "--store", "denokv"];
}

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
  // The suites whose tests open a store, each test with a denokv of its own (D-253): --store denokv.
  denokv: onDenokv("tests/shared/server", "tests/registry", "tests/proxy"),
  // The part of them that the gate runs.
  denokv_gate: onDenokv(
    "tests/proxy/relay/instances_test.ts",
    "tests/proxy/relay/instances_loss_test.ts",
    "tests/proxy/relay/connect_test.ts",
    "tests/proxy/relay/revalidation_test.ts",
    "tests/proxy/trust/pairing_order_test.ts",
    "tests/registry/sessions/session_races_test.ts",
    "tests/registry/revocation",
  ),
  e2e: ["--no-prompt", "--reporter=dot", "--parallel", "-A", "tests/e2e"],
};
