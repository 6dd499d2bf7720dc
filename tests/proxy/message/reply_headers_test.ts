/** Shows which reply headers the proxy accepts, and that the frame carries them on every path. */
import { assertEquals } from "@std/assert";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { until } from "../../support/until.ts";
import { outcome, refused } from "../../support/registry_world.ts";
import { type CastTest, inWorld, openCast } from "../cast.ts";
import { openProxy } from "../proxy_world.ts";

const REPLY = { [HEADERS.inReplyTo]: "request-0000", [HEADERS.auto]: "1" };

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

test("a frame carries the reply headers of its message", async ({ w, a, b, socket }) => {
  for (const inReplyTo of ["12345678", "x".repeat(128), "A-Z_a.z:0"]) {
    assertEquals(
      await outcome(await w.message(a, b, { headers: { ...REPLY, [HEADERS.inReplyTo]: inReplyTo } })),
      "202",
    );
    const frame = socket.delivered.at(-1);
    assertEquals([frame?.inReplyTo, frame?.auto], [inReplyTo, true]);
  }
});

test("a frame of a message without reply headers has none of their members", async ({ w, a, b, socket }) => {
  await w.message(a, b);
  const names = "attempt contentType fromAgentDid id identity payload proof requestId toAgentDid ts type v".split(" ");
  assertEquals(Object.keys(socket.delivered[0] ?? {}).sort(), names);
});

test("a malformed reply header is refused before any frame", async ({ w, a, b, socket }, t) => {
  const repeated = new Headers([[HEADERS.inReplyTo, "request-0000"], [HEADERS.inReplyTo, "request-0001"]]);
  const rows: [name: string, header: string, value: string][] = [
    ["no character", HEADERS.inReplyTo, ""],
    ["7 characters", HEADERS.inReplyTo, "1234567"],
    ["129 characters", HEADERS.inReplyTo, "x".repeat(129)],
    ["a space", HEADERS.inReplyTo, "request 0000"],
    ["a comma", HEADERS.inReplyTo, "request,0000"],
    ["two header lines", HEADERS.inReplyTo, repeated.get(HEADERS.inReplyTo) ?? ""],
    ["a letter beyond ASCII", HEADERS.inReplyTo, "r\u00e9quest-0000"],
    ["auto without a value", HEADERS.auto, ""],
    ["auto 0", HEADERS.auto, "0"],
    ["auto true", HEADERS.auto, "true"],
    ["auto twice", HEADERS.auto, "1,1"],
    ["auto in two header lines", HEADERS.auto, "1, 1"],
  ];
  for (const [name, header, value] of rows) {
    await t.step(name, async () => {
      await refused(await w.message(a, b, { headers: { [header]: value } }), "PROXY_HOOK_REPLY_INVALID");
    });
  }
  assertEquals(socket.frames, []);
});

Deno.test("a queued message keeps its reply headers", async () => {
  await using w = await openProxy();
  const { a, b } = await w.pairedAgents();
  const headers = { ...REPLY, Prefer: "respond-async" };
  assertEquals(await outcome(await w.message(a, b, { headers })), "202");
  assertEquals(await outcome(await w.message(a, b, { headers: { Prefer: "respond-async" } })), "202");
  const socket = w.connect(b);
  await until(() => socket.delivered.length === 2);
  assertEquals(socket.delivered.map(({ inReplyTo, auto }) => [inReplyTo, auto]), [
    ["request-0000", true],
    [undefined, undefined],
  ]);
});
