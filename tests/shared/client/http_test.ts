/**
 * The HTTP exchange of the CLI and the client library: deadline, bound on the body, redirects, and what each caller
 * makes of a response. Error envelopes name no code of their own making.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  apiErrorOf,
  asUnreachable,
  errorEnvelope,
  exchange,
  ExchangeError,
  type HttpRequest,
  wholeSeconds,
} from "../../../shared/client/http.ts";
import { callService } from "../../../cli/link/service_call.ts";
import { LocalClient } from "../../../shared/client/local_client.ts";
import { viewOf } from "../../../cli/connector/talk/view.ts";
import { ApiError, LocalDown, type UnreachableError } from "../../../shared/client/errors.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { recordedTerminal } from "../../support/recorded_terminal.ts";
import { seededRandom } from "../../support/seeded_random.ts";

const REQUEST: HttpRequest = {
  method: "GET",
  url: "http://127.0.0.1:1/",
  timeoutMs: 5_000,
  maxBytes: 1024 * 1024,
  onTooLarge: "fail",
};

/** A body without an end, how much of it was taken, and whether it was cancelled. */
function endless() {
  const taken = { bytes: 0, cancelled: false };
  const chunk = new Uint8Array(64 * 1024).fill(0x20);
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      taken.bytes += chunk.length;
      controller.enqueue(chunk);
    },
    cancel() {
      taken.cancelled = true;
    },
  });
  return { taken, response: new Response(body) };
}

function depsOf(response: () => Response | Promise<Response>) {
  return { fetch: () => Promise.resolve(response()), clock: new ManualClock() };
}

async function failure(promise: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => promise, ExchangeError)).reason;
}

Deno.test("an exchange is ended by each of two signals, and leaves nothing at one that lives on", async () => {
  const waiting = (async (_: unknown, { signal }: RequestInit = {}) => {
    await new Promise<void>((resolve) =>
      signal?.aborted ? resolve() : signal?.addEventListener("abort", () => resolve())
    );
    throw signal?.reason;
  }) as typeof fetch;
  for (const isUnderWay of [true, false]) {
    for (const which of ["signal", "closed"] as const) {
      const clock = new ManualClock(), ending = { signal: new AbortController(), closed: new AbortController() };
      const [signal, closed] = [ending.signal.signal, ending.closed.signal], calls: string[] = [];
      for (const name of ["addEventListener", "removeEventListener"] as const) {
        const call = closed[name];
        closed[name] = (...args: Parameters<typeof call>) => {
          calls.push(name);
          call.apply(closed, args);
        };
      }
      if (!isUnderWay) ending[which].abort();
      const exchanging = exchange({ fetch: waiting, clock, closed }, { ...REQUEST, signal });
      ending[which].abort();
      assertEquals(await failure(exchanging), "aborted");
      assertEquals([calls, clock.waiting], [["addEventListener", "removeEventListener"], 0]);
    }
  }
});

Deno.test("exchange() fails and cancels the body when it is larger than allowed", async () => {
  const { taken, response } = endless();
  assertEquals(await failure(exchange(depsOf(() => response), REQUEST)), "too_large");
  assert(taken.cancelled && taken.bytes <= 1024 * 1024 + 3 * 64 * 1024, String(taken.bytes));
  const text = "é😀";
  assertEquals((await exchange(depsOf(() => new Response(text)), { ...REQUEST, maxBytes: 6 })).text, text);
  assertEquals(await failure(exchange(depsOf(() => new Response(text)), { ...REQUEST, maxBytes: 5 })), "too_large");
});

Deno.test("exchange() cancels the body and returns its start when it may truncate", async () => {
  const { taken, response } = endless();
  const request = { ...REQUEST, maxBytes: 100_000, onTooLarge: "truncate" } as const;
  const { status, text, cut } = await exchange(depsOf(() => response), request);
  assertEquals([status, text.length, cut, taken.cancelled], [200, 100_000, "large", true]);
  const exact = await exchange(depsOf(() => new Response("12345")), { ...request, maxBytes: 5 });
  assertEquals([exact.text, exact.cut], ["12345", undefined]);
  const silent = new Response(new ReadableStream());
  assertEquals((await exchange(depsOf(() => silent), { ...request, maxBytes: 0 })).text, "");
});

Deno.test("exchange() returns status and start of a body that breaks off or is late when it may cut it", async () => {
  const request = { ...REQUEST, onTooLarge: "truncate", cutsBrokenBody: true } as const;
  const bodyOf = (signal: AbortSignal | null | undefined, breaksOff: boolean) =>
    new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode("start"));
        signal?.addEventListener("abort", () => controller.error(signal.reason));
      },
      pull(controller) {
        if (breaksOff) controller.error(new TypeError("reset"));
      },
    });
  for (const breaksOff of [true, false]) {
    const clock = new ManualClock();
    const fetch: typeof globalThis.fetch = (_input, init) =>
      Promise.resolve(new Response(bodyOf(init?.signal, breaksOff), { status: 201 }));
    const exchanged = exchange({ fetch, clock }, request);
    if (!breaksOff) await clock.advance(5_000);
    const { status, cut } = await exchanged;
    assertEquals([status, cut, clock.waiting], [201, "broken", 0]);
    const strict = failure(exchange({ fetch, clock }, { ...request, cutsBrokenBody: false }));
    if (!breaksOff) await clock.advance(5_000);
    assertEquals(await strict, breaksOff ? "unreachable" : "timeout");
  }
});

Deno.test("exchange() names why there is no response", async () => {
  const clock = new ManualClock();
  const silent: typeof fetch = (_input, init) =>
    new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
  const late = failure(exchange({ fetch: silent, clock }, REQUEST));
  await clock.advance(5_000);
  assertEquals(await late, "timeout");
  const reach = () => Promise.resolve(false);
  const unconnected = failure(exchange({ fetch: silent, clock, reach }, { ...REQUEST, connectMs: 2_000 }));
  await clock.advance(2_000);
  assertEquals(await unconnected, "connect");
  const stop = new AbortController();
  const stopped = failure(exchange({ fetch: silent, clock }, { ...REQUEST, signal: stop.signal }));
  stop.abort();
  assertEquals(await stopped, "aborted");
  const refused = () => Promise.reject(new TypeError("connection refused"));
  assertEquals(await failure(exchange({ fetch: refused, clock }, REQUEST)), "unreachable");
  assertEquals(clock.waiting, 0);
});

Deno.test("exchange() reports the headers of each response and follows no redirect", async () => {
  const seen: (string | null)[] = [];
  const onResponse = (headers: Headers) => void seen.push(headers.get("Location"));
  let redirect: string | undefined;
  const fetch: typeof globalThis.fetch = (_input, init) => {
    redirect = init?.redirect;
    return Promise.resolve(new Response(null, { status: 302, headers: { Location: "/x" } }));
  };
  const { status } = await exchange({ fetch, clock: new ManualClock(), onResponse }, REQUEST);
  assertEquals([status, seen, redirect], [302, ["/x"], "manual"]);
});

Deno.test("Retry-After counts when it is a whole number", () => {
  const headers = ["7", "0", "", "-1", "1.5", "1e3", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", null];
  assertEquals(headers.map(wholeSeconds), [7, 0, null, null, null, null, null, null, null]);
});

Deno.test("the client of the local API reads at most 10 MiB when something else answers without an end", async () => {
  const { taken, response } = endless();
  const file = { url: "http://127.0.0.1:1", port: 1, token: "t", pid: 1, agentDid: "", startedAt: "" };
  const find = () => Promise.resolve(file);
  const client = new LocalClient("alpha", { fetch: () => Promise.resolve(response), clock: new ManualClock(), find });
  await assertRejects(() => client.send({ method: "GET", target: "/v1/status" }), LocalDown);
  assert(taken.bytes < 11 * 1024 * 1024, String(taken.bytes));
});

const ESCAPES = "\u001b]0;x\u0007";

Deno.test("a code of an envelope is UNKNOWN_ERROR when it is not of the form of a code", async () => {
  const codes = [`A${ESCAPES}`, "lower", "", "A".repeat(65), 7, null, undefined, { toString: "x" }, "A\n", " A", "Ä"];
  for (const code of codes) {
    const text = JSON.stringify({ error: { code, message: "m" } });
    assertEquals(errorEnvelope(text), { code: "UNKNOWN_ERROR", message: "m" }, text);
    const known = { status: 400, headers: new Headers(), text };
    assertEquals(apiErrorOf(known)?.code, "UNKNOWN_ERROR");
    const fetch = () => Promise.resolve(new Response(text, { status: 400 }));
    const deps = { fetch, clock: new ManualClock(), random: seededRandom(1) };
    const request = { method: "GET", url: "http://127.0.0.1:1/", response: null } as const;
    assertEquals((await assertRejects(() => callService(deps, request), ApiError)).code, "UNKNOWN_ERROR");
  }
  for (const code of ["NOT_FOUND", "A_CODE_OF_TOMORROW", "E2", "A".repeat(64)]) {
    assertEquals(errorEnvelope(JSON.stringify({ error: { code, message: "m" } })), { code, message: "m" });
  }
  assertEquals(errorEnvelope(`{"error":{"code":"A","message":"${"x".repeat(9_999)}"}}`)?.message.length, 2_000);
  for (const text of ["", "[]", "null", '{"error":null}', '{"error":"x"}', "<html>"]) {
    assertEquals(errorEnvelope(text), null);
  }
});

Deno.test("an event in JSON holds no character that steers a terminal, and means the same", () => {
  const { terminal, seen } = recordedTerminal(true);
  const why = `${ESCAPES}\u007f\u009b31m\u202e\u2066\u2028é😀`;
  viewOf({ clock: new ManualClock(), terminal, json: true, colour: false, live: () => null }).event("refused", { why });
  const printed = seen.stdout + seen.stderr;
  // deno-lint-ignore no-control-regex
  assert(!/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/.test(printed), printed);
  assertEquals(JSON.parse(printed).why, why);
});

Deno.test("a refused connection certainly brought nothing to the service, and one that breaks may have", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${listener.addr.port}/`;
  const failure = async () => {
    const request = { ...REQUEST, method: "POST", url, body: "x".repeat(10_000) } as const;
    const failed = await assertRejects(() => exchange({ fetch, clock: new ManualClock() }, request), ExchangeError);
    const { mayHaveArrived, brokeOff } = asUnreachable(url, failed) as UnreachableError;
    return { mayHaveArrived, brokeOff };
  };
  // With unread bytes the connection is reset, and without them it is closed.
  for (const bytes of [0, 10, 20_000]) {
    const broken = failure();
    const connection = await listener.accept();
    if (bytes > 0) await connection.read(new Uint8Array(bytes));
    connection.close();
    assertEquals(await broken, { mayHaveArrived: true, brokeOff: true });
  }
  listener.close();
  assertEquals(await failure(), { mayHaveArrived: false, brokeOff: false });
});
