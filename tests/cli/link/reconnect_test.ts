/** When a link is opened again after its end (D-392). */
import { assertEquals } from "@std/assert";
import { ApiError, UnreachableError } from "../../../shared/client/errors.ts";
import type { LinkEvents } from "../../../cli/link/link.ts";
import { ReconnectingLink, SETTLED_MS } from "../../../cli/link/reconnect.ts";
import { ServiceClock } from "../../../cli/link/service_clock.ts";
import { shutdownReason } from "../../../shared/protocol/frames.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";

/** A proxy whose answers a test gives, with the waits before each attempt. All random waits are half of their longest. */
class Proxy {
  readonly clock = new ManualClock();
  readonly waits: number[] = [];
  /** The open link. */
  link: LinkEvents | null = null;
  losses = 0;
  revoked = 0;
  /** Why the links have ended. */
  readonly ends: unknown[] = [];
  refusal: Error | null = null;
  /** The agent's present identity token. */
  ait = "old";
  /** Called at each attempt, with the token that it carries. */
  tried: (ait: string) => void = () => {};
  /** Why the session cannot be refreshed; `null`: nothing has changed. */
  refreshError: Error | null = null;
  readonly #connection: ReconnectingLink;
  readonly #ended: Promise<unknown>;

  constructor() {
    const { clock } = this;
    const session = {
      current: () => Promise.resolve({ did: "", ait: this.ait, accessToken: "", privateKey: {} as CryptoKey }),
      renew: (_: unknown, { ait }: { ait: string }) =>
        this.refreshError ? Promise.reject(this.refreshError) : Promise.resolve(ait !== this.ait),
      accessExpiresAt: Infinity,
      identityExpiresAt: Infinity,
      stop: () => {},
    };
    this.#connection = new ReconnectingLink({
      clock,
      random: { bytes: () => new Uint8Array([0x80, 0, 0, 0]) },
      serviceClock: new ServiceClock(clock),
      session,
      open: ({ ait }, events) => {
        this.tried(ait);
        if (this.refusal) return Promise.reject(this.refusal);
        this.link = events;
        return Promise.resolve({ close: () => {}, check: () => {} });
      },
      emit: (event, fields) => {
        if (event === "waiting") this.waits.push(Number((fields as { ms: number }).ms));
        if (event === "revoked") this.revoked++;
        if (event === "disconnected") this.ends.push(fields?.why);
      },
    }, {
      deliver: () => Promise.resolve({ accepted: true }),
      paired: () => {},
      delivery: () => {},
      connected: () => {},
      lost: () => void this.losses++,
    });
    this.#ended = this.#connection.run();
  }

  /** Since when the link has its state, or is away, by the clock of the test. */
  get since(): number {
    return this.#connection.status.since;
  }

  /** Ends a link that has lasted so long, and returns the wait before the next attempt, which is then made. */
  async close(code: number, reason: string, lastedMs = 0): Promise<number | undefined> {
    await this.clock.advance(lastedMs);
    this.link?.closed(code, reason);
    return await this.#next();
  }

  async #next(): Promise<number | undefined> {
    await flushTasks();
    const wait = this.waits.at(-1);
    await this.clock.advance(wait ?? 0);
    await flushTasks();
    return wait;
  }

  /** Refuses the attempts of the next call of `close`, and returns the waits. */
  async refuse(times: number): Promise<(number | undefined)[]> {
    const waits = [];
    for (let i = 0; i < times; i++) waits.push(await this.#next());
    return waits;
  }

  async stop(): Promise<void> {
    this.#connection.stop();
    this.link?.closed(1000, "");
    await this.#ended;
  }
}

async function withProxy(run: (proxy: Proxy) => Promise<void>): Promise<void> {
  const proxy = new Proxy();
  await flushTasks();
  await run(proxy);
  await proxy.stop();
}

Deno.test("a link that a proxy shuts down is opened again within the time that the proxy names", () =>
  withProxy(async (proxy) => {
    const close = (ms: number) => proxy.close(1001, shutdownReason(ms), SETTLED_MS);
    for (const ms of [1_000, 16_000, 60_000]) assertEquals(await close(ms), ms / 2);
    // Bounded: the reason is a text of the network.
    assertEquals(await close(999_999), 30_000);
    assertEquals(await close(0), 500);
  }));

Deno.test("a proxy that shuts down each new link is connected to less and less often, within the time that it names", () =>
  withProxy(async (proxy) => {
    const reasons = [0, 0, 60_000, 0, 0, 0];
    const waits = [];
    for (const ms of reasons) waits.push(await proxy.close(1001, shutdownReason(ms)));
    assertEquals(waits, [500, 2_000, 30_000, 8_000, 16_000, 28_000]);
  }));

Deno.test("a link counts as lost when it is silent or breaks off, and not when the proxy ends it", () =>
  withProxy(async (proxy) => {
    for (const [code, losses] of [[1000, 0], [1001, 0], [1006, 1], [4401, 1], [4408, 2]] as const) {
      await proxy.close(code, "");
      assertEquals(proxy.losses, losses, `${code}`);
    }
  }));

Deno.test("a link whose pings got no answer, as after this machine slept, is silent and lost", () =>
  withProxy(async (proxy) => {
    await proxy.close(1001, "No response from ping frame.");
    assertEquals([proxy.losses, proxy.ends], [1, ["the link was silent (4408: No response from ping frame.)"]]);
  }));

Deno.test("a proxy that says without an end that the agent is revoked is reported once for each link", () =>
  withProxy(async (proxy) => {
    const revoked = { v: 1, id: "", ts: "", type: "revoked", reason: "sender" } as never;
    for (let i = 0; i < 100; i++) proxy.link?.revoked?.(revoked);
    assertEquals(proxy.revoked, 1);
    await proxy.close(1006, "");
    proxy.link?.revoked?.(revoked);
    assertEquals(proxy.revoked, 2);
  }));

Deno.test("a link that is away names the time of its end also after many tries", () =>
  withProxy(async (proxy) => {
    const lost = proxy.clock.now();
    proxy.refusal = new ApiError(503, "PROXY_RELAY_UNAVAILABLE", "It stops", null, 1);
    await proxy.close(1006, "");
    await proxy.refuse(5);
    assertEquals(proxy.since, lost);
    proxy.refusal = null;
    await proxy.refuse(1);
    assertEquals(proxy.since, proxy.clock.now());
  }));

Deno.test("a link that is refused with an identity that another call has replaced meanwhile is opened with the new one", () =>
  withProxy(async (proxy) => {
    proxy.tried = (ait) => {
      proxy.refusal = ait === "new" ? null : new ApiError(401, "PROXY_AUTH_REVOKED", "The AIT is revoked", null);
      proxy.ait = "new";
    };
    const before = proxy.link;
    await proxy.close(4401, "the agent was reissued");
    await flushTasks();
    assertEquals([proxy.link === before, proxy.refusal], [false, null]);
  }));

Deno.test("restarts one after the other do not make the waits longer", () =>
  withProxy(async (proxy) => {
    for (let restart = 0; restart < 6; restart++) {
      assertEquals(await proxy.close(1001, shutdownReason(1_000), SETTLED_MS), 500);
    }
  }));

Deno.test("a refusal after a shutdown is followed by the named time, then by waits that double", () =>
  withProxy(async (proxy) => {
    proxy.refusal = new ApiError(503, "PROXY_RELAY_UNAVAILABLE", "It stops", null, 1);
    assertEquals(await proxy.close(1001, shutdownReason(3_000), SETTLED_MS), 1_500);
    assertEquals(await proxy.refuse(3), [1_500, 2_000, 4_000]);
    proxy.refusal = null;
    assertEquals(await proxy.refuse(1), [8_000]);
    assertEquals(
      await proxy.close(1001, shutdownReason(3_000), SETTLED_MS),
      1_500,
      "an announced end begins again with the first wait",
    );
  }));

const REFUSALS = { ACCOUNT_SUSPENDED: "of a suspended account", AGENT_NOT_FOUND: "that is unknown" };
for (const [code, why] of Object.entries(REFUSALS)) {
  Deno.test(`a connector ${why} asks every 2 min, and as usual once the server takes it`, () =>
    withProxy(async (proxy) => {
      proxy.refusal = new ApiError(401, "PROXY_AGENT_ACCESS_INVALID", "The session has ended", null);
      proxy.refreshError = new ApiError(403, code, "The server says why", null);
      assertEquals(await proxy.close(4401, "agent auth revoked"), 2_500);
      assertEquals(await proxy.refuse(3), [120_000, 120_000, 120_000]);
      proxy.refusal = proxy.refreshError = null;
      await proxy.refuse(1);
      assertEquals(await proxy.close(1006, ""), 2_000);
    }));
}

Deno.test("a registry that names a time for the next refresh is asked no earlier, as with many agents of one address", () =>
  withProxy(async (proxy) => {
    proxy.refusal = new ApiError(401, "PROXY_AGENT_ACCESS_INVALID", "The session has ended", null);
    proxy.refreshError = new ApiError(429, "RATE_LIMIT_EXCEEDED", "Too many refreshes", null, 45);
    await proxy.close(4401, "agent auth revoked");
    assertEquals(await proxy.refuse(3), [45_000, 45_000, 45_000]);
  }));

Deno.test("other ends of a link, and a shutdown without a time, have the usual waits", () =>
  withProxy(async (proxy) => {
    const reasons = ["shutting down", "", "connect again within 1 ms", "shutting down; connect again within -1 ms"];
    for (const [i, reason] of reasons.entries()) {
      assertEquals(await proxy.close(1001, reason), [2_500, 2_000, 4_000, 8_000][i], reason);
    }
    assertEquals(await proxy.close(1008, shutdownReason(1)), 16_000);
  }));

Deno.test("a machine without a network tries every two seconds for ten minutes; one whose server is down tries rarely", () =>
  withProxy(async (proxy) => {
    proxy.refusal = new UnreachableError("no", { cause: new Error("connect EHOSTUNREACH 192.0.2.1:443") });
    assertEquals(await proxy.close(1006, ""), 2_500);
    const waits = await proxy.refuse(398);
    assertEquals(new Set(waits), new Set([1_500]));
    assertEquals(await proxy.refuse(4), [1_500, 2_000, 4_000, 8_000]);
    proxy.refusal = null;
    await proxy.refuse(1);
    await proxy.clock.advance(60_000);
    proxy.refusal = new UnreachableError("no", { cause: new Error("connect ECONNREFUSED 192.0.2.1:443") });
    assertEquals(await proxy.close(1006, ""), 2_500);
    assertEquals(await proxy.refuse(3), [2_000, 4_000, 8_000]);
  }));
