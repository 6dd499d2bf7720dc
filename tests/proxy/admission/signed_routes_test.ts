/**
 * Every route of pairing and of the relay asks for the AIT in the scheme `Svc` and a proof of possession, and those of the
 * relay for an access token (D-72). Each of their faults is refused before the proxy looks at the request.
 */
import { assertEquals } from "@std/assert";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { outcome } from "../../support/registry_world.ts";
import type { RequestParts, TestAgent, World } from "../../support/world.ts";
import { openProxy, PROFILE } from "../proxy_world.ts";

const RECEIPTS = "/v1/relay/delivery-receipts";

/** The routes, each with a request that passes every check of its caller. */
function requestsOf({ agent: { did } }: TestAgent): [parts: RequestParts, outcome: string][] {
  const query = new URLSearchParams({ requestId: "request-1", recipientAgentDid: did });
  const post = (target: string, body: unknown) => ({ target, body: JSON.stringify(body) });
  const receipt = { requestId: "request-1", recipientAgentDid: did, status: "processed_by_svc", timestamp: "now" };
  return [
    [post("/pair/start", { initiatorProfile: PROFILE }), "200"],
    [post("/pair/confirm", { ticket: "junk", responderProfile: PROFILE }), "404 PROXY_PAIR_TICKET_NOT_FOUND"],
    [post("/pair/status", { ticket: "junk" }), "404 PROXY_PAIR_TICKET_NOT_FOUND"],
    [post("/pair/remove", { peerAgentDid: did }), "204"],
    [{ method: "GET", target: "/pair/peers" }, "200"],
    [post(RECEIPTS, receipt), "400 PROXY_RELAY_RECEIPT_INVALID"],
    [{ method: "GET", target: `${RECEIPTS}?${query}` }, "200"],
    [post("/pair/accept", {}), "400 PROXY_PAIR_INVALID_BODY"],
    [post("/v1/relay/deliveries", {}), "400 PROXY_RELAY_RECEIPT_INVALID"],
    [{ method: "GET", target: "/v1/relay/connect" }, "426 PROXY_RELAY_UPGRADE_REQUIRED"],
  ];
}

function faultsOf(w: World, a: TestAgent, other: TestAgent): [what: string, parts: RequestParts, code: string][] {
  const without = (name: string) => ({ headers: { [name]: null } });
  const { ait } = a.identity;
  return [
    ["no AIT", without(HEADERS.authorization), "PROXY_AUTH_MISSING_TOKEN"],
    ["the scheme Bearer", { headers: { Authorization: `Bearer ${ait}` } }, "PROXY_AUTH_INVALID_SCHEME"],
    ["an access token", { headers: { Authorization: `Svc ${a.identity.accessToken}` } }, "PROXY_AUTH_INVALID_AIT"],
    ["a changed AIT", { headers: { Authorization: `Svc ${ait.slice(0, -4)}AAAA` } }, "PROXY_AUTH_INVALID_AIT"],
    ["no timestamp", without(HEADERS.timestamp), "PROXY_AUTH_INVALID_TIMESTAMP"],
    ["an old timestamp", { timestamp: String(unixSeconds(w.clock.now()) - 301) }, "PROXY_AUTH_TIMESTAMP_SKEW"],
    ["no nonce", without(HEADERS.nonce), "PROXY_AUTH_INVALID_NONCE"],
    ["no digest of the body", without(HEADERS.bodySha256), "PROXY_AUTH_INVALID_PROOF"],
    ["no proof", without(HEADERS.proof), "PROXY_AUTH_INVALID_PROOF"],
    ["the proof of another path", { signed: { target: "/hooks/agent" } }, "PROXY_AUTH_INVALID_PROOF"],
    ["the proof of another method", { signed: { method: "PUT" } }, "PROXY_AUTH_INVALID_PROOF"],
    [
      "the AIT of another agent",
      { headers: { Authorization: `Svc ${other.identity.ait}` } },
      "PROXY_AUTH_INVALID_PROOF",
    ],
  ];
}

/** Routes of the relay also need the access token; for pairing the proxy asks the registry about the agent and its owner instead. */
function accessFaultsOf(other: TestAgent): [what: string, parts: RequestParts, code: string][] {
  return [
    ["no access token", { headers: { [HEADERS.access]: null } }, "PROXY_AGENT_ACCESS_REQUIRED"],
    [
      "the access token of another agent",
      { headers: { [HEADERS.access]: other.identity.accessToken } },
      "PROXY_AGENT_ACCESS_INVALID",
    ],
  ];
}

Deno.test("pairing and relay refuse a request without the AIT, its proof or what else they need", async (t) => {
  await using w = await openProxy();
  const [a, other] = [await w.agent(), await w.agent()];
  for (const [request, passes] of requestsOf(a)) {
    await t.step(`${request.method ?? "POST"} ${request.target?.split("?")[0]}`, async () => {
      const send = async (parts: RequestParts) =>
        await outcome(await w.fetch(await w.signed(a, { ...request, ...parts })));
      const faults = faultsOf(w, a, other).concat(
        request.target?.startsWith("/v1/relay/") ? accessFaultsOf(other) : [],
      );
      for (const [what, parts, code] of faults) {
        assertEquals([what, await send(parts)], [what, `401 ${code}`]);
      }
      const nonce = toBase64Url(w.random.bytes(18));
      assertEquals(await send({ nonce }), passes);
      assertEquals(await send({ nonce }), "401 PROXY_AUTH_REPLAY");
    });
  }
});
