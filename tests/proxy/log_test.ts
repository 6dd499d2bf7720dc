/**
 * Shows what the proxy logs (docs/operations.md#logs): nothing for an accepted message; for a refused one the code, the
 * request ID, the address and the verified agent; never a credential or message content.
 */
import { assert, assertEquals } from "@std/assert";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { jsonLog, type Level } from "../../shared/server/log.ts";
import type { RequestParts, World } from "../support/world.ts";
import { get, openProxy, post, PROFILE, withAccess, withAit } from "./proxy_world.ts";

/** The lines that a service writes. */
function linesOf(w: World): string[] {
  const lines: string[] = [];
  const log = jsonLog(w.clock, "proxy", (line) => lines.push(line));
  for (const { level, event, fields } of w.log) log(level as Level, event, fields);
  return lines;
}

Deno.test("an accepted message is not logged", async () => {
  await using w = await openProxy();
  const { a, b } = await w.story();
  w.log.length = 0;
  for (let i = 0; i < 5; i++) assertEquals((await w.message(a, b)).status, 202);
  assertEquals(w.log, []);
});

Deno.test("a refusal is logged with code, request ID, address, and the agent once its AIT is verified", async (t) => {
  await using w = await openProxy();
  const { a, b } = await w.story();
  const cases: [code: string, parts: RequestParts, verified: boolean][] = [
    ["PROXY_AUTH_MISSING_TOKEN", { headers: { Authorization: null } }, false],
    ["PROXY_AUTH_INVALID_AIT", { headers: { Authorization: `Svc ${a.identity.ait}x` } }, false],
    ["PROXY_AUTH_TIMESTAMP_SKEW", { timestamp: "1" }, true],
    ["PROXY_AUTH_INVALID_PROOF", { signed: { method: "PUT" } }, true],
    ["PROXY_AGENT_ACCESS_INVALID", { headers: { [HEADERS.access]: "svc_agt_secret" } }, true],
    ["PROXY_HOOK_INVALID_JSON", { body: "{" }, true],
  ];
  for (const [code, parts, verified] of cases) {
    await t.step(code, async () => {
      w.log.length = 0;
      const { headers } = await w.message(a, b, parts);
      // The registry writes its lines to the same log here.
      const [line, ...more] = w.log.filter(({ fields }) => fields.ip !== "process");
      assertEquals([line?.level, line?.event, more], ["info", "request_refused", []]);
      const { fields = {} } = line ?? {};
      assertEquals([fields.code, fields.requestId, fields.ip], [code, headers.get("x-request-id"), "192.0.2.1"]);
      assertEquals(fields.agentDid, verified ? a.agent.did : undefined);
    });
  }
});

Deno.test("no credential, ticket or message is in any line or any answer, with any failure", async () => {
  await using w = await openProxy();
  const { a, b } = await w.story();
  const { ait, accessToken } = a.identity;
  const { ticket } = await (await post(w, a, "/pair/start", { initiatorProfile: PROFILE })).json();
  const secrets = [
    ait,
    ait.split(".")[2] ?? "",
    accessToken,
    a.agentAuth.refreshToken,
    a.owner.apiKey,
    ticket,
    "words of the message",
  ];
  const body = JSON.stringify({ message: "words of the message" });
  const answers: Response[] = [
    await w.message(a, b, { body, signed: { method: "PUT" } }),
    await w.message(a, b, { body, timestamp: ait }),
    await w.message(a, b, { body, nonce: accessToken }),
    await w.message(a, b, { body, headers: { Authorization: `Bearer ${a.owner.apiKey}` } }),
    await w.message(a, b, { body, headers: { Authorization: `Svc ${ait}x` } }),
    await w.message(withAccess(a, a.agentAuth.refreshToken), b, { body }),
    await w.message(withAit(a, a.owner.apiKey), b, { body }),
    await w.message(a, b, { body, headers: { [HEADERS.requestId]: accessToken.slice(0, 50) } }),
    await w.message(a, b, { body, recipient: accessToken }),
    await w.message(a, b, { body: `${body}!` }),
    await w.message(a, b, { body, headers: { "Content-Type": "text/plain" } }),
    await post(w, a, "/pair/confirm", { ticket, responderProfile: PROFILE }),
    await post(w, b, "/pair/status", { ticket: `${ticket}x` }),
    await post(w, b, "/pair/status", { ticket, extra: accessToken }),
    await get(w, a, `/pair/peers/${ticket}`),
    await get(w, a, `/v1/relay/delivery-receipts?requestId=${accessToken}&recipientAgentDid=${ticket}`),
  ];
  w.registryAnswer = () => Promise.reject(new Error(`cannot reach https://user:${accessToken}@registry`));
  answers.push(await w.message(a, b, { body }));
  const lines = linesOf(w);
  assert(lines.length >= answers.filter(({ status }) => status >= 400).length, `${lines.length} lines`);
  for (const line of lines) {
    JSON.parse(line);
    for (const secret of secrets) assert(!line.includes(secret), line);
  }
  for (const [i, answer] of answers.entries()) {
    const text = await answer.text();
    for (const secret of secrets) assert(!text.includes(secret), `${i}: ${text}`);
  }
});
