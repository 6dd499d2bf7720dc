/**
 * What deno.json says about starting svc, for programs that run without it: the permission sets as flags for the binary and
 * as a deno.json for the package, and the flags of V8 that `task start` gives the server.
 */
import project from "../../deno.json" with { type: "json" };

type Permission = boolean | readonly string[];

/** Flags of a set. */
export function permissionFlags(set: keyof typeof project.permissions): string[] {
  const rights: [kind: string, value: Permission][] = Object.entries(project.permissions[set]);
  const flags = rights.map(([kind, value]) =>
    value === true ? `--allow-${kind}` : `--allow-${kind}=${(value as readonly string[]).join(",")}`
  );
  return ["--no-prompt", ...flags];
}

/**
 * The flags of V8 for a server. Without them V8 drops optimised code when a server has had few messages for 16 s, and the
 * next thousands of messages cost a third more CPU (docs/performance.md).
 */
export function serverV8Flags({ tasks }: { tasks: { start?: { command: string } } } = project): string[] {
  return tasks.start?.command.match(/--v8-flags=\S+/g) ?? [];
}

/**
 * Content of the deno.json beside the bundle. Its sets: `svc` for a command, `serve` for the commands that open a store,
 * which start no program, and `connector` for what svc writes into services and files of hosts. It is the root of a
 * workspace, else Deno would also read a deno.json in the folders above, and end when that one is damaged.
 */
export function bundleConfig(): Record<string, unknown> {
  const { connector, svc } = project.permissions;
  const { run: _, ...serve } = svc;
  // A command reads what a connector reads; the server's variables are for the server alone.
  const permissions = { svc: { ...svc, env: connector.env }, serve, connector };
  return { workspace: [], lock: false, nodeModulesDir: "none", permissions };
}
