/** The permission sets of deno.json for programs that run without it: flags for the binary, a deno.json for the package. */
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
