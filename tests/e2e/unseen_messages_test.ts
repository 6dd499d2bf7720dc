/** One trial of each disturbance of a reader, and one kill of each process (D-395); tests/soak has the long run. */
import { printedSeed } from "../support/trials.ts";
import { killed, victims } from "./true_states.ts";
import { DISTURBANCES, disturbed } from "./unseen_messages.ts";

const seed = printedSeed();

for (const isAttached of [false, true]) {
  const where = `with the connector ${isAttached ? "of another process" : "in the same process"}`;
  Deno.test(`no message is read unseen when a call is disturbed, ${where}`, async () => {
    await disturbed(DISTURBANCES, { seed, isAttached, isDrained: false });
  });

  // The long run kills each process of both, because a kill of all takes half a minute.
  if (isAttached) continue;
  Deno.test(`what is said of a message is true after a kill of each process, ${where}`, async () => {
    await killed(victims(isAttached), { seed, isAttached });
  });
}
