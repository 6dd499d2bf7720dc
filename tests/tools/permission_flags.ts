/** The permission sets of deno.json as flags, for programs that run without deno.json: the binary and the package (D-163). */
import project from "../../deno.json" with { type: "json" };

type Permission = boolean | readonly string[];

/** Flags of a set; `without` names kinds that are left out. */
export function permissionFlags(set: keyof typeof project.permissions, without: readonly string[] = []): string[] {
  const rights: [kind: string, value: Permission][] = Object.entries(project.permissions[set]);
  const flags = rights.filter(([kind]) => !without.includes(kind)).map(([kind, value]) =>
    value === true ? `--allow-${kind}` : `--allow-${kind}=${(value as readonly string[]).join(",")}`
  );
  return ["--no-prompt", ...flags];
}
