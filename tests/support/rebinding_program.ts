/**
 * Asks a registry whose name leads to this machine at the call, while the look before it saw a public address. Prints what arrived at
 * port 443 of this machine and how the call ended, as JSON.
 */
import { Issuers } from "../../proxy/federation/issuers.ts";
import { systemClock } from "../../shared/clock.ts";
import { systemRandom } from "../../shared/random.ts";
import { Metrics } from "../../shared/server/metrics/metrics.ts";

const arrived: string[] = [];
const inside = Deno.listen({ hostname: "127.0.0.1", port: 443 });
(async () => {
  for await (const connection of inside) {
    const buffer = new Uint8Array(4_096), read = await connection.read(buffer) ?? 0;
    arrived.push(new TextDecoder("latin1").decode(buffer.subarray(0, read)));
    connection.close();
  }
})();
const kv = await Deno.openKv(":memory:");
const issuers = new Issuers({
  ...{ kv, clock: systemClock, random: systemRandom, log: () => {}, metrics: new Metrics(), onList: () => {} },
  send: fetch,
  lookup: () => Promise.resolve([{ address: "93.184.215.14" }]),
  config: { registryKeysTtlMs: 300_000, federationPrivate: false },
});
const ended = await issuers.of(`https://${Deno.args[0]}`).keys.current().then(() => "answered", ({ code }) => code);
console.log(JSON.stringify({ arrived, ended }));
Deno.exit(0);
