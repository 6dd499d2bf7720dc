/**
 * The long run of tests/e2e/unseen_messages_test.ts (D-395): 200 kills, cancelled calls and closed hosts of `svc mcp`, and
 * 20 kills of each process while two agents write to each other. `-- --trials n` sets another number, ten times that of the
 * kills of a process, and `-- --seed n` repeats moments.
 */
import { killed, victims } from "../e2e/true_states.ts";
import { DISTURBANCES, disturbed } from "../e2e/unseen_messages.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { printedSeed, trials } from "../support/trials.ts";

const seed = printedSeed();
const chance = numbersFrom(seed);
const oneOf = <T>(values: readonly T[]): T => values[Math.floor(chance() * values.length)] as T;

for (const isAttached of [false, true]) {
  const where = `with the connector ${isAttached ? "of another process" : "in the same process"}`;
  Deno.test(`no message is read unseen at random moments, ${where}`, async () => {
    const disturbances = Array.from({ length: trials(200) / 2 }, () => oneOf(DISTURBANCES));
    console.log(JSON.stringify(await disturbed(disturbances, { seed, isAttached, isDrained: true })));
  });

  for (const victim of victims(isAttached)) {
    Deno.test(`what is said of messages is true at each kill of ${victim}, ${where}`, async () => {
      const kills = Array.from({ length: trials(200) / 10 }, () => victim);
      console.log(JSON.stringify(await killed(kills, { seed, isAttached })));
    });
  }
}
