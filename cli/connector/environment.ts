/** The environment variables that only the connector and the platforms read. */
import type { EnvironmentName, System } from "../context.ts";

/** A variable's value; an empty one counts as unset. */
export function variable(world: Pick<System, "env">, name: EnvironmentName): string | undefined {
  return world.env(name);
}
