/** What several e2e files set up in the same way. */
import type { Place } from "../cli/place.ts";
import { Machine, type Program } from "../cli/program.ts";

/** Returns a function that declares a test with a machine of its own, next to services that all tests share. */
export function machineTests(program: Program, place: Place) {
  return (name: string, run: (place: Place, machine: Machine) => Promise<void>): void =>
    Deno.test({
      name: `${program.name}: ${name}`,
      // The services start before a test and end after it.
      sanitizeResources: false,
      sanitizeOps: false,
      async fn() {
        place.tamper = null;
        await using machine = await Machine.open(program, place);
        await run(place, machine);
      },
    });
}
