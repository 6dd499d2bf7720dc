/** The tokens with which an agent visits other servers. */
import { assertEquals } from "@std/assert";
import { type SessionStore, StoredCredentials } from "../../../cli/link/agent_credentials.ts";
import { PeerProxies } from "../../../cli/link/peer_proxies.ts";
import { ProxyCaller } from "../../../cli/link/proxy_caller.ts";
import { ServiceClock } from "../../../cli/link/service_clock.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { vectors } from "../../support/vectors.ts";

const { privateKey } = await keyPairFromSeed(new Uint8Array(32).fill(1));
const DID = "did:svc:localhost:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const BAD = "https://bad.example", GOOD = "https://good.example";

Deno.test("a server that refuses every token leaves the agent tokens for other servers", async () => {
  const clock = new ManualClock(), machine = new ServiceClock(clock);
  const inAnHour = () => toIso(clock.now() + 3_600_000);
  const auth = { tokenType: "Bearer", accessToken: "access", refreshToken: "refresh" } as const;
  const ends = { accessExpiresAt: inAnHour(), refreshExpiresAt: inAnHour() };
  let visits = 0;
  const store: SessionStore = {
    read: () =>
      Promise.resolve({
        identity: { did: DID, ait: vectors("proof").ait, privateKey, accessToken: "access" },
        auth: { ...auth, ...ends },
        aitExpiresAt: clock.now() + 3_600_000,
      }),
    refresh: () => Promise.reject(new Error("not called")),
    visit: () => {
      visits++;
      if (visits > LIMITS.visitRequests) throw new ApiError(429, "RATE_LIMIT_EXCEEDED", "too many", null);
      return Promise.resolve({ token: `token-${visits}`, expiresAt: toIso(clock.now() + 300_000) });
    },
  };
  const session = new StoredCredentials({ clock: machine, emit: () => {}, store }, await store.read());
  const refused = { error: { code: "PROXY_AGENT_ACCESS_INVALID", message: "No" } };
  const fetch = ((url: string) =>
    Promise.resolve(
      url.startsWith(BAD) ? Response.json(refused, { status: 401 }) : Response.json({}),
    )) as typeof globalThis.fetch;
  const deps = { fetch, random: seededRandom(), session, emit: () => {} };
  const home = new ProxyCaller({ ...deps, clock: machine }, { dialUrl: GOOD, origin: GOOD });
  const proxies = new PeerProxies({ ...deps, machine: clock, check: () => {} }, home, () => undefined);
  const statusAt = async (origin: string) => (await proxies.at(origin).call({ method: "GET", target: "/" })).status;
  for (let n = 0; n < 2 * LIMITS.visitRequests; n++) assertEquals(await statusAt(BAD), 401);
  assertEquals(await statusAt(GOOD), 200);
  assertEquals(visits, 3);
  clock.step(-3_600_000);
  assertEquals([await statusAt(BAD), visits], [401, 4]);
});
