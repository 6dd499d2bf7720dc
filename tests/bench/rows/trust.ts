/**
 * The cost of a trust change for its writer and its reader: on a store without earlier changes, and after many
 * unexpired ones. A real store and a real reader; no server runs.
 */
import { systemClock } from "../../../shared/clock.ts";
import { announceTrustChange, TrustChanges } from "../../../shared/server/store/trust_changes.ts";
import { figure, type Outcome, ratio } from "../figures.ts";
import { timed } from "../run.ts";
import type { World } from "../world.ts";

const MEASURED = 100;

export async function changes(world: World): Promise<Outcome> {
  const { trustChanges } = world.scale;
  const kv = await Deno.openKv(world.newStore());
  const ring = async (n: number) => {
    const operation = kv.atomic();
    announceTrustChange(operation, systemClock.now(), [`agent-${n}`]);
    await operation.commit();
  };
  let received = 0;
  const reader = new TrustChanges({ kv, clock: systemClock, log: () => {} }, () => received++);
  const measure = async () => {
    const before = received;
    const { cpuSeconds, seconds } = await timed(async () => {
      for (let i = 0; i < MEASURED; i++) {
        await ring(i);
        await reader.poll();
      }
    });
    if (received === before) throw new Error("No change was received");
    return { cpuUs: cpuSeconds * 1e6 / MEASURED, us: seconds * 1e6 / MEASURED };
  };
  try {
    await reader.start();
    await measure();
    const first = await measure();
    world.say(`writing ${trustChanges} trust changes`);
    for (let i = 0; i < trustChanges; i++) await ring(i);
    await reader.poll();
    const last = await measure();
    return {
      figures: [
        figure("a trust change, the first", first.us, "µs"),
        figure("a trust change, the first: CPU", first.cpuUs, "µs"),
        figure(`a trust change after ${trustChanges}`, last.us, "µs"),
        figure(`a trust change after ${trustChanges}: CPU`, last.cpuUs, "µs"),
        ratio("trust change after many / first: CPU", last.cpuUs, first.cpuUs, { atMost: 2 }),
      ],
    };
  } finally {
    reader.stop();
    kv.close();
  }
}
