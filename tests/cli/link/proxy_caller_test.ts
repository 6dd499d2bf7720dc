/** Calls to the proxy that are refused together for a cause that one of them repairs. */
import { assertEquals } from "@std/assert";
import { type SessionStore, StoredCredentials } from "../../../cli/link/agent_credentials.ts";
import { ProxyCaller } from "../../../cli/link/proxy_caller.ts";
import { ServiceClock } from "../../../cli/link/service_clock.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { until } from "../../support/until.ts";

const HOME = "https://proxy.example.test";

/** Calls a proxy three times at once, which refuses with `code` until `isRight` accepts a request. Returns the states. */
async function together(code: string, isRight: (headers: Headers, clock: ManualClock) => boolean): Promise<number[]> {
  const clock = new ManualClock(), { privateKey } = await keyPairFromSeed(new Uint8Array(32));
  let identity = { did: "did:svc:x", ait: "a.b.old", privateKey, accessToken: "svc_agt_x" };
  const session = {
    current: () => Promise.resolve(identity),
    renew(_: unknown, refused: { ait: string }) {
      identity = { ...identity, ait: "a.b.new" };
      return Promise.resolve(identity.ait !== refused.ait);
    },
    accessExpiresAt: Infinity,
    identityExpiresAt: Infinity,
    stop: () => {},
  };
  const proxy = (_: unknown, init?: RequestInit) => {
    const date = new Date(clock.now() - HOUR_MS).toUTCString();
    const answer = isRight(new Headers(init?.headers), clock)
      ? Response.json({}, { headers: { date } })
      : Response.json({ error: { code, message: "No" } }, { status: 401, headers: { date } });
    return Promise.resolve(answer);
  };
  const caller = new ProxyCaller(
    { fetch: proxy as typeof fetch, clock: new ServiceClock(clock), random: seededRandom(), session, emit: () => {} },
    { dialUrl: HOME, origin: HOME },
  );
  const calls = [1, 2, 3].map(() => caller.call({ method: "POST", target: "/hooks/agent", body: "{}" }));
  return (await Promise.all(calls)).map(({ status }) => status);
}

const HOUR_MS = 3_600_000;

Deno.test("all calls that are refused together for a clock that is an hour ahead are repeated", async () => {
  const isRight = (headers: Headers, clock: ManualClock) =>
    Math.abs(Number(headers.get(HEADERS.timestamp)) * 1000 - (clock.now() - HOUR_MS)) < 10_000;
  assertEquals(await together("PROXY_AUTH_TIMESTAMP_SKEW", isRight), [200, 200, 200]);
});

Deno.test("all calls that are refused together after the agent was reissued are repeated", async () => {
  const isRight = (headers: Headers) => headers.get(HEADERS.authorization) === "Svc a.b.new";
  assertEquals(await together("PROXY_AUTH_REVOKED", isRight), [200, 200, 200]);
});

Deno.test("calls that are refused one after the other for an old access token end no token that another is made again with", async () => {
  const clock = new ServiceClock(new ManualClock()), { privateKey } = await keyPairFromSeed(new Uint8Array(32));
  const expiresAt = toIso(clock.now() + HOUR_MS);
  let accessToken = "token 1";
  const auth = () => {
    const ends = { accessExpiresAt: expiresAt, refreshExpiresAt: expiresAt };
    return { tokenType: "Bearer", accessToken, refreshToken: "refresh", ...ends } as const;
  };
  const store: SessionStore = {
    read: () =>
      Promise.resolve({
        identity: { did: "did:svc:x", ait: "a.b.c", privateKey, accessToken },
        auth: auth(),
        aitExpiresAt: Infinity,
      }),
    refresh() {
      accessToken = `token ${Number(accessToken.slice(6)) + 1}`;
      return Promise.resolve(auth());
    },
    visit: () => Promise.reject(new Error("not called")),
  };
  const session = new StoredCredentials({ clock, emit: () => {}, store }, await store.read());
  // What the proxy has not answered. It knows only the newest token when it answers.
  const waiting: { token: string | null; answer(response: Response): void }[] = [];
  const proxy = (_: unknown, init?: RequestInit) =>
    new Promise<Response>((answer) => waiting.push({ token: new Headers(init?.headers).get(HEADERS.access), answer }));
  const caller = new ProxyCaller(
    { fetch: proxy as typeof fetch, clock, random: seededRandom(), session, emit: () => {} },
    { dialUrl: HOME, origin: HOME },
  );
  const statuses: number[] = [];
  for (let n = 0; n < 3; n++) {
    void caller.call({ method: "POST", target: "/hooks/agent", body: "{}" }).then(({ status }) =>
      statuses.push(status)
    );
  }
  await until(() => waiting.length === 3);
  // Another process has refreshed the session.
  accessToken = "token 2";
  const refused = { error: { code: "PROXY_AGENT_ACCESS_INVALID", message: "No" } };
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    next.answer(next.token === accessToken ? Response.json({}) : Response.json(refused, { status: 401 }));
    await until(() => waiting.length + statuses.length === 3);
  }
  assertEquals(statuses, [200, 200, 200]);
  assertEquals(accessToken, "token 2");
  session.stop();
});
