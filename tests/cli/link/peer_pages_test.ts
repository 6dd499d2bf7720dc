/** Shows that the connector reads all pages of its peers. */
import { assertEquals, assertRejects } from "@std/assert";
import { readAllPeers } from "../../../cli/link/peer_pages.ts";
import type { HttpResponse } from "../../../shared/client/http.ts";
import { ProxyCaller, ProxyRefusal, type ProxyRequest } from "../../../cli/link/proxy_caller.ts";
import { UnreachableError } from "../../../shared/client/errors.ts";
import { formatDid } from "../../../shared/protocol/did.ts";

const place = { dialUrl: "https://proxy.example.test", origin: "https://proxy.example.test" };
const peerOf = (n: number) => ({
  agentDid: formatDid({
    authority: "registry.example.test",
    kind: "agent",
    id: `01KHYQ5H00${String(n).padStart(16, "0")}`,
  }),
  profile: { agentName: `agent-${n}`, humanName: "Ada" },
  pairedAt: "2026-02-21T00:00:00.000Z",
  online: null,
  lastSeenAt: null,
});

/** A proxy that returns these answers one after the other. */
function proxyOf(answers: ((request: ProxyRequest) => unknown)[], status = 200) {
  const targets: string[] = [];
  const call = (request: ProxyRequest): Promise<HttpResponse> => {
    const answer = (answers[targets.length] ?? answers.at(-1))?.(request);
    targets.push(request.target);
    const text = typeof answer === "string" ? answer : JSON.stringify(answer);
    return Promise.resolve({ status, headers: new Headers(), text });
  };
  const proxy: ProxyCaller = Object.assign(Object.create(ProxyCaller.prototype), { call, place });
  return { targets, proxy };
}

/** The agent whose peers they are: one of the same authority. */
const OWN = peerOf(99_999).agentDid;

const page = (from: number, to: number, nextCursor: string | null) => () => ({
  peers: Array.from({ length: to - from }, (_, i) => peerOf(from + i)),
  pagination: { limit: 500, nextCursor },
});

Deno.test("the connector reads every page of its peers", async () => {
  const [first, second] = [peerOf(499).agentDid, peerOf(999).agentDid];
  const { proxy, targets } = proxyOf([page(0, 500, first), page(500, 1_000, second), page(1_000, 1_003, null)]);
  const read = await readAllPeers(proxy, OWN);
  assertEquals(read, Array.from({ length: 1_003 }, (_, i) => peerOf(i)));
  const cursors = ["", first, second].map((cursor) => cursor && `&cursor=${encodeURIComponent(cursor)}`);
  assertEquals(targets, cursors.map((cursor) => `/pair/peers?limit=500${cursor}`));
});

Deno.test("the connector passes on the refusal of any page, and fails on an answer that is not a list", async () => {
  const error = { error: { code: "PROXY_RATE_LIMIT_EXCEEDED", message: "no" } };
  const { response } = await assertRejects(() => readAllPeers(proxyOf([() => error], 429).proxy, OWN), ProxyRefusal);
  assertEquals(JSON.parse(response.text), error);
  for (const answer of ["<html>", {}, { peers: "x" }, { peers: [], pagination: {} }]) {
    await assertRejects(() => readAllPeers(proxyOf([() => answer]).proxy, OWN), UnreachableError);
  }
});

Deno.test("the connector stops reading pages when they have no end, and long ones after 100,000 peers", async () => {
  for (const [perPage, pages] of [[1, 200], [10_000, 10]] as const) {
    const text = JSON.stringify(page(0, perPage, peerOf(0).agentDid)());
    const { proxy, targets } = proxyOf([() => text]);
    await assertRejects(() => readAllPeers(proxy, OWN), UnreachableError);
    assertEquals(targets.length, pages);
  }
});
