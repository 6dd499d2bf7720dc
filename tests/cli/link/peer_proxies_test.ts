/** Which other servers are called. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { PeerProxies } from "../../../cli/link/peer_proxies.ts";
import { ProxyCaller } from "../../../cli/link/proxy_caller.ts";
import { ServiceClock } from "../../../cli/link/service_clock.ts";
import { UnreachableError } from "../../../shared/client/errors.ts";
import { formatTicket, parseTicket } from "../../../shared/protocol/ticket.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";

function proxiesOf(clock: ManualClock): PeerProxies {
  const session = {
    current: () => Promise.reject(new Error("not called")),
    renew: () => Promise.resolve(false),
    visit: () => Promise.resolve(""),
    endVisit: () => false,
    accessExpiresAt: Infinity,
    identityExpiresAt: Infinity,
    stop: () => {},
  };
  const deps = { fetch, random: seededRandom(), session, emit: () => {} };
  const home = "https://proxy.example.test";
  const caller = new ProxyCaller({ ...deps, clock: new ServiceClock(clock) }, { dialUrl: home, origin: home });
  return new PeerProxies({ ...deps, machine: clock, check: () => {} }, caller, () => undefined);
}

Deno.test("the time of the last call to another server is that of this machine also when the server's clock is late", async () => {
  const clock = new ManualClock(), proxies = proxiesOf(clock), origin = "https://other.example";
  const there = proxies.at(origin);
  there.deps.clock.see(new Date(clock.now() - 3_600_000).toUTCString());
  assertEquals(there.deps.clock.adopt(), true);
  await assertRejects(() => there.call({ method: "GET", target: "/" }), Error, "not called");
  assertEquals(proxies.lastOf(origin), { at: clock.now(), problem: "not called" });
});

Deno.test("a server of a ticket is not called when its origin is too long for the file of the peers", () => {
  const proxies = proxiesOf(new ManualClock());
  const at = (label: string) => {
    const origin = `https://${label}.${label}.${label}.example`;
    const ticket = parseTicket(formatTicket(origin, new Uint8Array(16)));
    assertEquals(ticket?.origin, origin);
    return proxies.at(origin);
  };
  at("a".repeat(40));
  assertThrows(() => at("a".repeat(50)), UnreachableError, "is not the origin of a server");
});
