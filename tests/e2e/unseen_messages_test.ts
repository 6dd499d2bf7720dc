/** One trial of each disturbance of a reader, and one kill (D-395), at fixed moments; tests/soak has the long run. */
import { IS_LONG, longTest, printedSeed } from "../support/trials.ts";
import { killed, victims } from "./true_states.ts";
import { DISTURBANCES, disturbed } from "./unseen_messages.ts";

const seed = IS_LONG ? printedSeed() : 1;

for (const isAttached of [false, true]) {
  const where = `with the connector ${isAttached ? "of another process" : "in the same process"}`;
  const test = isAttached ? longTest : Deno.test;
  test(`no message is read unseen when a call is disturbed, ${where}`, async () => {
    await disturbed(DISTURBANCES, { seed, isAttached, isDrained: false });
  });
}

const [victim = ""] = victims(false);
Deno.test(`what is said of a message is true after a kill of ${victim}, with the connector in the same process`, async () => {
  await killed([victim], { seed, isAttached: false });
});
