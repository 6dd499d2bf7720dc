/**
 * A relay that invents as much as it can: 20,000 peers, and 20,000 messages that are not signed. Memory and disk of the
 * connector stay bounded, its link stays, and a genuine message gets through.
 */
import { assert, assertEquals } from "@std/assert";
import { arrives, opened, pair, send } from "../e2e/hostile_world.ts";
import { LISTED_PAIRS } from "../../cli/connector/peers/peers.ts";
import { eventually } from "../support/process.ts";

const FLOODS = 40, OF_EACH = 500;
const MIB = 1024 ** 2;
/** Of the second half of the floods: by then the caches are full, and garbage is collected now and then. */
const GROWTH_MIB = 64;

function bytesIn(folder: string): number {
  return [...Deno.readDirSync(folder)].reduce((sum, { name }) => sum + Deno.statSync(`${folder}/${name}`).size, 0);
}

Deno.test({
  name: "20,000 invented peers and 20,000 invented messages leave memory and disk bounded, and the link open",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using more = new AsyncDisposableStack();
    const all = await opened(more), folder = `${all.bob}/agents/beta`;
    const residentMiB = () =>
      Number(/^VmRSS:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${all.beta.file.pid}/status`))?.[1]) / 1024;
    const peers = () => JSON.parse(Deno.readTextFileSync(`${folder}/peers.json`));
    await pair(all);
    await arrives(all, (await send(all)).text);
    const { alpha } = peers();
    await all.relay.arm("listed_crowd");
    // An unknown name makes the connector read the list again.
    assertEquals((await all.beta.call("POST", "/v1/outbound", { to: "gamma", text: "hi" })).status, 404);
    await all.relay.made("listed_crowd");
    await eventually(60_000, "the crowd is listed", () => Object.keys(peers()).length >= LISTED_PAIRS || undefined);
    assertEquals(peers().alpha, alpha);
    const crowded = Deno.statSync(`${folder}/peers.json`).size;
    assert(crowded < 16 * MIB, `peers.json has ${crowded} bytes`);
    await arrives(all, (await send(all)).text);
    const disk = bytesIn(folder);
    let middle = NaN;
    for (let flood = 1; flood <= FLOODS; flood++) {
      await all.relay.arm("flood");
      await send(all);
      const acks = await all.relay.acks("flood", flood * OF_EACH);
      assertEquals(acks.filter(({ accepted }) => accepted), []);
      if (flood === FLOODS / 2) middle = residentMiB();
    }
    await arrives(all, (await send(all)).text);
    assertEquals((await all.beta.json("GET", "/v1/status")).refused, FLOODS * OF_EACH);
    const told = all.beta.events.filter(({ event }) => event === "proof_refused").length;
    assert(told < 10, `${told} events of refusals`);
    assert(!all.beta.events.some(({ event }) => event === "disconnected"), "the link was lost");
    const [grown, grownDisk] = [residentMiB() - middle, bytesIn(folder) - disk];
    console.log(`memory ${Math.round(grown)} MiB more, disk ${grownDisk} bytes more, peers.json ${crowded} bytes`);
    assert(grown < GROWTH_MIB, `memory grew by ${grown} MiB`);
    assert(grownDisk < MIB, `the folder grew by ${grownDisk} bytes`);
  },
});
