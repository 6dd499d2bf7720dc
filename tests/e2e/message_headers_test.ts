/**
 * Message headers on the wire, sent as bytes: the reply headers that the proxy refuses (D-110), and bound headers that
 * were changed, removed or added after the request was signed (D-111, D-140).
 */
import { assertEquals } from "@std/assert";
import { messageTarget } from "../../shared/protocol/message_context.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { type LiveAgent, newId, Service } from "../support/process.ts";
import { codeOf, type HeaderLine, rawExchange, rawRequest, signedLines } from "../support/raw_http.ts";

const BODY = '{"message":"hi"}';

/** Signs a message with the headers `signed`, sends it with the headers `sent`, and returns its status and code. */
async function send(
  { url }: Service,
  { a, b }: { a: LiveAgent; b: LiveAgent },
  sent: readonly HeaderLine[],
  signed: readonly HeaderLine[] | null = null,
): Promise<{ result: string; repeat: () => Promise<string> }> {
  const target = signed === null
    ? "/hooks/agent"
    : await messageTarget([["Content-Type", "application/json"], ...signed]);
  const lines = await signedLines(url, a, { target, body: BODY, recipient: b.identity.did });
  const post = async (more: readonly HeaderLine[]) => {
    const answer = await rawExchange(url, rawRequest("POST", target, [...lines, ...more], BODY));
    if (answer === null) return "closed";
    return answer.status < 300 ? String(answer.status) : `${answer.status} ${codeOf(answer)}`;
  };
  return { result: await post(sent), repeat: () => post(signed ?? []) };
}

Deno.test("a malformed or repeated reply header is refused, and no frame is sent", async (t) => {
  await using service = await Service.open();
  const agents = await service.agents();
  const connector = await service.connect(agents.b);
  const rows: [name: string, lines: HeaderLine[]][] = [
    ["empty", [[HEADERS.inReplyTo, ""]]],
    ["7 characters", [[HEADERS.inReplyTo, "1234567"]]],
    ["129 characters", [[HEADERS.inReplyTo, "x".repeat(129)]]],
    ["a space", [[HEADERS.inReplyTo, "request 0000"]]],
    ["a comma", [[HEADERS.inReplyTo, "request,0000"]]],
    ["two header lines", [[HEADERS.inReplyTo, "request-0000"], [HEADERS.inReplyTo, "request-0000"]]],
    ["auto empty", [[HEADERS.auto, ""]]],
    ["auto 0", [[HEADERS.auto, "0"]]],
    ["auto true", [[HEADERS.auto, "true"]]],
    ["auto 1,1", [[HEADERS.auto, "1,1"]]],
    ["auto in two header lines", [[HEADERS.auto, "1"], [HEADERS.auto, "1"]]],
  ];
  for (const [name, lines] of rows) {
    await t.step(name, async () => {
      assertEquals((await send(service, agents, lines)).result, "400 PROXY_HOOK_REPLY_INVALID");
    });
  }
  assertEquals(connector.frames, []);
  assertEquals((await send(service, agents, [[HEADERS.inReplyTo, "request-0000"], [HEADERS.auto, "1"]])).result, "202");
  assertEquals(connector.frames.map(({ inReplyTo, auto }) => [inReplyTo, auto]), [["request-0000", true]]);
  await connector.close();
});

Deno.test("a bound header that is changed, removed or added after signing is refused and uses the nonce", async (t) => {
  await using service = await Service.open();
  const agents = await service.agents();
  const connector = await service.connect(agents.b);
  const headers = (): HeaderLine[] => [
    [HEADERS.requestId, newId()],
    [HEADERS.conversationId, "c-1"],
    [HEADERS.inReplyTo, "request-0000"],
    [HEADERS.auto, "1"],
  ];
  const without = (name: string) => headers().filter((line) => line[0] !== name);
  const rows: [name: string, signed: HeaderLine[], change: (signed: HeaderLine[]) => HeaderLine[]][] = [
    ["another request ID", headers(), (signed) => [[HEADERS.requestId, newId()], ...signed.slice(1)]],
    ...[HEADERS.conversationId, HEADERS.inReplyTo].map((name): (typeof rows)[number] => [
      `${name} changed`,
      headers(),
      (signed) => signed.map((line) => line[0] === name ? [name, "changed-0"] : line),
    ]),
    ...[HEADERS.conversationId, HEADERS.inReplyTo, HEADERS.auto].flatMap((name): typeof rows => [
      [`${name} removed`, headers(), (signed) => signed.filter((line) => line[0] !== name)],
      [`${name} added`, without(name), (signed) => [...signed, ...headers().filter((line) => line[0] === name)]],
    ]),
    ["a later header added", headers(), (signed) => [...signed, ["X-Svc-Later", "1"]]],
  ];
  for (const [name, signed, change] of rows) {
    await t.step(name, async () => {
      const { result, repeat } = await send(service, agents, change(signed), signed);
      assertEquals([result, await repeat()], ["400 PROXY_HOOK_CONTEXT_INVALID", "401 PROXY_AUTH_REPLAY"]);
    });
  }
  assertEquals(connector.frames, []);
  const signed = headers();
  assertEquals((await send(service, agents, signed.toReversed(), signed)).result, "202");
  assertEquals(connector.frames.length, 1);
  await connector.close();
});
