/** Which other servers are called. */
import { assertEquals, assertThrows } from "@std/assert";
import { PeerProxies } from "../../../cli/link/peer_proxies.ts";
import { ProxyCaller } from "../../../cli/link/proxy_caller.ts";
import { ServiceClock } from "../../../cli/link/service_clock.ts";
import { UnreachableError } from "../../../shared/client/errors.ts";
import { formatTicket, parseTicket } from "../../../shared/protocol/ticket.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";

Deno.test("a server of a ticket is not called when its origin is too long for the file of the peers", () => {
  const clock = new ManualClock();
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
  const proxies = new PeerProxies({ ...deps, machine: clock, check: () => {} }, caller, () => undefined);
  const at = (label: string) => {
    const origin = `https://${label}.${label}.${label}.example`;
    const ticket = parseTicket(formatTicket(origin, new Uint8Array(16)));
    assertEquals(ticket?.origin, origin);
    return proxies.at(origin);
  };
  at("a".repeat(40));
  assertThrows(() => at("a".repeat(50)), UnreachableError, "is not the origin of a server");
});
