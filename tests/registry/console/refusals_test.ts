/** What the console says to do about a refusal. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { latestRefusals, refusalTable, refusedCard } from "../../../registry/console/refusals.ts";

const DID = "did:svc:registry.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const code = "PROXY_AUTH_INVALID_AIT", at = "2026-11-20T08:00:00.000Z";
const known = new Map([[DID, { id: "01KHYQ5H00AAAAAAAAAAAAAAAA", name: "alpha", ownerName: "Ada" }]]);

Deno.test("a command to run names its agent; without a name there is none, because it could not be pasted", () => {
  const commandIn = (html: string) => /<code>([^<]*)<\/code>/.exec(html)?.[1];
  const cases = [[DID, known, "svc agent reissue alpha"], [DID, new Map(), undefined], [
    null,
    known,
    undefined,
  ]] as const;
  for (const [agentDid, agents, command] of cases) {
    const group = { code, check: 1, agentDid, count: 1, lastAt: at };
    const refusal = { at, requestId: "r", code, check: 1, method: "POST", route: "/hooks/agent", agentDid };
    for (
      const { text } of [
        refusalTable([group], "/console/x", agents),
        refusedCard(refusal, { agents, now: Date.parse(at) }),
      ]
    ) {
      assertEquals(commandIn(text), command);
      assert(command !== undefined || text.includes("Ask the owner to reissue the AIT"));
    }
  }
});

Deno.test("a code that is the name of a member of every object is shown, because another proxy can send any code", () => {
  const refusal = { at, requestId: "r", code: "constructor", check: null, method: "GET", route: null, agentDid: null };
  const group = { code: "constructor", check: null, agentDid: null, count: 1, lastAt: at };
  const now = Date.parse(at);
  for (
    const { text } of [
      refusalTable([group], "/console/x", known),
      refusedCard(refusal, { agents: known, now }),
      latestRefusals([refusal], "alpha", now),
    ]
  ) {
    assertStringIncludes(text, "constructor");
  }
});

Deno.test("what an operator reads of frequent refusals names no header", () => {
  for (const code of ["PROXY_RELAY_CONNECTOR_OFFLINE", "PROXY_RELAY_DELIVERY_FAILED", "PROXY_AUTH_TIMESTAMP_SKEW"]) {
    const refusal = { at, requestId: "r", code, check: null, method: "POST", route: "/hooks/agent", agentDid: DID };
    const group = { code, check: null, agentDid: DID, count: 1, lastAt: at };
    for (
      const { text } of [
        refusalTable([group], "/console/x", known),
        refusedCard(refusal, { agents: known, now: Date.parse(at) }),
        latestRefusals([refusal], "alpha", Date.parse(at)),
      ]
    ) assert(!/prefer|x-svc|x-request-id|header/i.test(text), `${code}: ${text}`);
  }
});
