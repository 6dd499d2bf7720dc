/**
 * Hermes and nanobot as their documentation describes them, each a small server behind a connector of its platform. A
 * message that they accept ends in `processed_by_svc`, and the connector sends nothing that they would refuse.
 */
import { assertEquals } from "@std/assert";
import { World } from "../../support/world.ts";
import { type Behaviour, story } from "../connector/bench.ts";
import { until } from "../../support/until.ts";

const SECRET = "secret-of-the-webhook";

async function hex(text: string): Promise<string> {
  const bytes = (value: string) => new TextEncoder().encode(value);
  const key = await crypto.subtle.importKey("raw", bytes(SECRET), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const signature = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes(text)));
  return [...signature].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The webhook adapter: checks signature, time and route, and remembers the IDs it has seen. */
function hermes(now: () => number): Behaviour {
  const seen = new Set<string>();
  return async ({ url, headers, body }) => {
    if (url.endsWith("/health")) return Response.json({ status: "ok", platform: "webhook" });
    if (!url.endsWith("/webhooks/svc")) return new Response(null, { status: 404 });
    const time = headers.get("x-webhook-timestamp") ?? "";
    const isNow = Math.abs(now() / 1000 - Number(time)) <= 300;
    if (!isNow || headers.get("x-webhook-signature-v2") !== await hex(`${time}.${body}`)) {
      return new Response(null, { status: 401 });
    }
    const id = headers.get("x-request-id") ?? "";
    if (seen.has(id)) return Response.json({ status: "duplicate" });
    seen.add(id);
    return Response.json({ status: "accepted" }, { status: 202 });
  };
}

/** The API: accepts exactly one user message and an optional session. */
const nanobot: Behaviour = ({ url, body }) => {
  if (url.endsWith("/health")) return Response.json({ status: "ok" });
  const { messages, session_id: session } = JSON.parse(body) as { messages: { role: string }[]; session_id?: unknown };
  const fits = url.endsWith("/v1/chat/completions") && messages.length === 1 && messages[0]?.role === "user" &&
    (session === undefined || typeof session === "string");
  return fits ? Response.json({ choices: [] }) : new Response(null, { status: 400 });
};

Deno.test("hermes accepts the connector's request and distinguishes two senders with the same ID", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, {
    platform: "hermes",
    target: { hookToken: SECRET },
    behaviour: hermes(() => world.clock.now()),
  });
  const c = await world.agent();
  await world.pair(c, b);
  for (const from of [a, c]) await world.message(from, b, { headers: { "x-request-id": "request-1" } });
  await until(() => bench.eventsOf("receipt_sent").length === 2);
  assertEquals(bench.eventsOf("handover_failed"), []);
  assertEquals(new Set(bench.calls.map(({ headers }) => headers.get("x-request-id"))).size, 2);
  assertEquals(bench.connector.status().runtime.reachable, true);
});

Deno.test("nanobot accepts any payload as one user message", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "nanobot", behaviour: nanobot });
  for (const body of ['{"message":"hi"}', '{"x":1}', "[1]"]) await world.message(a, b, { body });
  await until(() => bench.eventsOf("receipt_sent").length === 3);
  assertEquals(bench.eventsOf("handover_failed"), []);
});

Deno.test("nanobot may take two minutes, after the sender has its answer", async () => {
  await using world = await World.open();
  const done = Promise.withResolvers<Response>();
  const { a, b, bench } = await story(world, {
    platform: "nanobot",
    behaviour: ({ body }) => body === "" ? Response.json({}) : done.promise,
  });
  assertEquals((await (await world.message(a, b)).json()).delivered, true);
  await until(() => bench.handedOver.length === 1);
  await world.clock.advance(119_000);
  assertEquals(bench.eventsOf("handover_failed"), []);
  done.resolve(Response.json({ choices: [] }));
  await until(() => bench.eventsOf("receipt_sent").length === 1);
});
