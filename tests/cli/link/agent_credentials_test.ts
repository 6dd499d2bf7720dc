/** The tokens with which an agent visits other servers. */
import { assertEquals } from "@std/assert";
import { type SessionStore, StoredCredentials } from "../../../cli/link/agent_credentials.ts";
import { PeerProxies } from "../../../cli/link/peer_proxies.ts";
import { ProxyCaller } from "../../../cli/link/proxy_caller.ts";
import { ServiceClock } from "../../../cli/link/service_clock.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { vectors } from "../../support/vectors.ts";

const { privateKey } = await keyPairFromSeed(new Uint8Array(32).fill(1));
const DID = "did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const BAD = "https://bad.example", GOOD = "https://good.example";

/** An agent that calls the two servers. `refuses` tells whether one of them refuses a visit token. */
async function visitor(refuses: (origin: string, token: string) => boolean) {
  const clock = new ManualClock(), machine = new ServiceClock(clock);
  const inAnHour = () => toIso(clock.now() + 3_600_000);
  const auth = { tokenType: "Bearer", accessToken: "access", refreshToken: "refresh" } as const;
  const ends = { accessExpiresAt: inAnHour(), refreshExpiresAt: inAnHour() };
  const visits: string[] = [];
  /** Seconds from this machine's clock to the registry's. */
  const registry = { offsetSeconds: 0 };
  const store: SessionStore = {
    read: () =>
      Promise.resolve({
        identity: { did: DID, ait: vectors("proof").ait, privateKey, accessToken: "access" },
        auth: { ...auth, ...ends },
        aitExpiresAt: clock.now() + 3_600_000,
      }),
    refresh: () => Promise.reject(new Error("not called")),
    visit: () => {
      const token = `token-${visits.length + 1}`;
      visits.push(token);
      const there = clock.now() + registry.offsetSeconds * 1000;
      machine.see(new Date(there).toUTCString());
      if (Math.abs(machine.now() - there) > LIMITS.timestampSkewSeconds * 1000) {
        throw new ApiError(401, "AGENT_AUTH_REFRESH_UNAUTHORIZED", "X-Svc-Timestamp is more than 300 s off", null);
      }
      if (visits.length > LIMITS.visitRequests) throw new ApiError(429, "RATE_LIMIT_EXCEEDED", "too many", null);
      return Promise.resolve({ token, expiresAt: toIso(clock.now() + 300_000) });
    },
  };
  const session = new StoredCredentials({ clock: machine, emit: () => {}, store }, await store.read());
  const refused = { error: { code: "PROXY_AGENT_ACCESS_INVALID", message: "No" } };
  const fetch = ((url: string, { headers }: RequestInit) => {
    const isRefused = refuses(new URL(url).origin, new Headers(headers).get(HEADERS.access) ?? "");
    return Promise.resolve(isRefused ? Response.json(refused, { status: 401 }) : Response.json({}));
  }) as typeof globalThis.fetch;
  const deps = { fetch, random: seededRandom(), session, emit: () => {} };
  const home = new ProxyCaller({ ...deps, clock: machine }, { dialUrl: GOOD, origin: GOOD });
  const proxies = new PeerProxies({ ...deps, machine: clock, check: () => {} }, home, () => undefined);
  const statusAt = async (origin: string) => (await proxies.at(origin).call({ method: "GET", target: "/" })).status;
  return { clock, registry, visits, statusAt };
}

Deno.test("a server that refuses every token leaves the agent tokens for other servers", async () => {
  const { clock, visits, statusAt } = await visitor((origin) => origin === BAD);
  for (let n = 0; n < 2 * LIMITS.visitRequests; n++) assertEquals(await statusAt(BAD), 401);
  assertEquals(await statusAt(GOOD), 200);
  assertEquals(visits.length, 3);
  clock.step(-3_600_000);
  assertEquals([await statusAt(BAD), visits.length], [401, 4]);
});

Deno.test("calls whose token is refused together are all made again with the new token", async () => {
  let ended = "";
  const { visits, statusAt } = await visitor((_, token) => token === ended);
  const together = () => Promise.all(Array.from({ length: 8 }, () => statusAt(GOOD)));
  assertEquals(await statusAt(GOOD), 200);
  ended = visits.at(-1) ?? "";
  assertEquals(await together(), Array(8).fill(200));
  assertEquals(visits.length, 2);
});

Deno.test("calls at the same time share a token, and its refusal by the agent's own server", async () => {
  const { visits, statusAt } = await visitor(() => false);
  const together = (origin: string) => Promise.allSettled(Array.from({ length: 32 }, () => statusAt(origin)));
  assertEquals(new Set((await together(GOOD)).map(({ status }) => status)), new Set(["fulfilled"]));
  assertEquals(visits.length, 1);
  while (visits.length < LIMITS.visitRequests) visits.push("");
  assertEquals(new Set((await together(BAD)).map(({ status }) => status)), new Set(["rejected"]));
  assertEquals(visits.length, LIMITS.visitRequests + 1);
  assertEquals(await statusAt(GOOD), 200);
});

Deno.test("a token is asked for again with the registry's time after that was set, each time", async () => {
  const { clock, registry, visits, statusAt } = await visitor(() => false);
  for (const seconds of [600, 0, -600]) {
    registry.offsetSeconds = seconds;
    clock.step(300_000);
    assertEquals(await statusAt(GOOD), 200);
  }
  assertEquals(visits.length, 6);
});

Deno.test("an identity that is refused after a refresh is read again, because the refresh has not replaced it", async () => {
  const clock = new ManualClock(), ends = { accessExpiresAt: toIso(clock.now() + 3_600_000), refreshExpiresAt: "" };
  let ait = "old";
  const stored = (accessToken: string) =>
    ({ tokenType: "Bearer", accessToken, refreshToken: "refresh", ...ends }) as const;
  const store: SessionStore = {
    read: () =>
      Promise.resolve({
        identity: { did: DID, ait, privateKey, accessToken: "first" },
        auth: stored("first"),
        aitExpiresAt: clock.now() + 3_600_000,
      }),
    refresh: () => Promise.resolve(stored("second")),
    visit: () => Promise.reject(new Error("not called")),
  };
  const session = new StoredCredentials({ clock: new ServiceClock(clock), emit: () => {}, store }, await store.read());
  const refused = await session.current();
  await session.renew("access", refused);
  ait = "new";
  assertEquals([await session.renew("identity", refused), (await session.current()).ait], [true, "new"]);
  session.stop();
});
