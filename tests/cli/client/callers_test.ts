/** What each caller of the HTTP exchange makes of a response, or of none. */
import { assertEquals } from "@std/assert";
import { PAGES_MAX, pagesOf } from "../../../cli/client/registry_client.ts";
import { callService } from "../../../cli/link/service_call.ts";
import { Runtime } from "../../../cli/connector/runtime/runtime.ts";
import { ProxyCaller } from "../../../cli/link/proxy_caller.ts";
import { ServiceClock } from "../../../cli/link/service_clock.ts";
import { call, LocalClient } from "../../../shared/client/local_client.ts";
import { describe } from "../../../cli/errors.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { thisMachine } from "../../../cli/platforms/local_machine.ts";
import { OPENCLAW } from "../../../cli/platforms/openclaw.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { Machine } from "../cli_world.ts";
import { contextOf } from "../connector/context.ts";
import { inboxMessage } from "../platforms/received_message.ts";
import * as z from "zod";

const URL_ = "http://127.0.0.1:1";

/** A request that gets no response until it is aborted. */
const silent: typeof fetch = (_input, init) =>
  new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));

const SITUATIONS: Record<string, typeof fetch> = {
  "time-out": silent,
  "refused connection": () => Promise.reject(new TypeError("connection refused")),
  "redirect": () => Promise.resolve(new Response(null, { status: 302, headers: { Location: "/x" } })),
  "no JSON": () => Promise.resolve(new Response("<html>")),
  "envelope": () => Promise.resolve(Response.json({ error: { code: "X_CODE", message: "m" } }, { status: 409 })),
  "429 with Retry-After": () =>
    Promise.resolve(
      Response.json({ error: { code: "RATE_LIMIT_EXCEEDED", message: "m" } }, {
        status: 429,
        headers: { "Retry-After": "7" },
      }),
    ),
};

const message = inboxMessage('{"message":"m"}');

type Send = (deps: { fetch: typeof fetch }) => Promise<unknown>;

const unlike = (status: number) => `/readyz answered ${status}, not as OpenClaw does`;

/** The result of each situation: exit code and error code, with seconds to wait, or the value as JSON. */
const EXPECTED: Record<string, readonly string[]> = {
  registry: [...Array(4).fill("CLI_UNREACHABLE"), "X_CODE", "RATE_LIMIT_EXCEEDED 7"],
  proxy: ["CLI_UNREACHABLE", "CLI_UNREACHABLE", "HTTP_302", "CLI_UNREACHABLE", "X_CODE", "RATE_LIMIT_EXCEEDED 7"],
  "local API": [...Array(4).fill("CLI_CONNECTOR_DOWN"), "X_CODE", "RATE_LIMIT_EXCEEDED 7"],
  delivery: ["timeout", "unreachable: no connection", "status 302", "status 200", "status 409", "status 429 7000"],
  health: ["it does not answer", "no connection", unlike(302), "healthy", unlike(409), unlike(429)],
  detection: ["none", "none", "302 0", "200 6", "409 41", "429 54"],
};

Deno.test("each caller of the HTTP exchange gives its own error code for each kind of response", async (t) => {
  await using machine = await Machine.ofPerson();
  const { clock } = machine.world;
  const random = seededRandom(1);
  const { privateKey } = await keyPairFromSeed(new Uint8Array(32));
  const identity = { did: "did:svc:x", ait: "a.b.c", privateKey, accessToken: "svc_agt_x" };
  const session = {
    current: () => Promise.resolve(identity),
    renew: () => Promise.resolve(false),
    accessExpiresAt: 0,
    identityExpiresAt: 0,
    stop: () => {},
  };
  const target = { platform: "openclaw", baseUrl: URL_, hookPath: "/hooks/agent", hookToken: null } as const;
  const file = { url: URL_, port: 1, token: "t", pid: 1, agentDid: "", startedAt: "" };
  const find = () => Promise.resolve(file);
  const callers: Record<string, Send> = {
    registry: ({ fetch }) =>
      callService({ fetch, clock, random }, { method: "GET", url: `${URL_}/v1/me`, response: z.object({}) }),
    proxy: ({ fetch }) =>
      new ProxyCaller(
        { fetch, clock: new ServiceClock(clock), random, session, emit: () => {} },
        { dialUrl: URL_, origin: URL_ },
      ).ask({ method: "GET", target: "/pair/peers" }, z.object({})),
    "local API": ({ fetch }) =>
      call(new LocalClient("alpha", { fetch, clock, find }), z.object({}), { method: "GET", target: "/v1/status" }),
    delivery: async ({ fetch }) => {
      const answer = await new Runtime({ fetch, clock }, OPENCLAW, target).post(message, new AbortController().signal);
      if (answer.kind === "status") return `status ${answer.status} ${answer.retryAfterMs || ""}`.trim();
      return answer.kind === "timeout" ? "timeout" : `unreachable: ${answer.why}`;
    },
    health: async ({ fetch }) => await new Runtime({ fetch, clock }, OPENCLAW, target).problem() ?? "healthy",
    detection: async ({ fetch }) => {
      const answer = await thisMachine({ ...contextOf(machine.world, machine), fetch }).ask(URL_);
      return answer === null ? "none" : `${answer.status} ${answer.body.length}`;
    },
  };
  for (const [caller, send] of Object.entries(callers)) {
    for (const [i, [situation, fetch]] of Object.entries(SITUATIONS).entries()) {
      await t.step(`${caller}: ${situation}`, async () => {
        const result = send({ fetch }).then(String, (error) => {
          const wait = error instanceof ApiError && error.retryAfter !== null ? ` ${error.retryAfter}` : "";
          return describe(error).code + wait;
        });
        await flushTasks();
        if (situation === "time-out") await clock.advance(60_000);
        assertEquals(await result, EXPECTED[caller]?.[i]);
        assertEquals(clock.waiting, 0, "a timer is left");
      });
    }
  }
});

Deno.test("a list without an end is read up to a bound, so that a command ends", async () => {
  let next = 0;
  const read = () => Promise.resolve({ pagination: { nextCursor: String(++next) } });
  const pages = await Array.fromAsync(pagesOf(read, undefined, PAGES_MAX));
  assertEquals([pages.length, next], [PAGES_MAX, PAGES_MAX]);
});
