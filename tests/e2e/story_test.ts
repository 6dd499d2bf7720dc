/**
 * The whole story over real sockets, by the code that users run: once with both services in one process, once with
 * registry and proxy apart, each with a store of its own and the service credential between them. Decisions: D-63,
 * D-64.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentClient, type AgentIdentity, ApiError, RegistryClient } from "../support/agent_client.ts";
import { CLOSE } from "../../shared/protocol/frames.ts";
import {
  Connector,
  deps,
  eventually,
  type LiveAgent,
  newAgent,
  pair,
  type Place,
  refusedWith,
  Service,
  SOON_MS,
  startServerHere,
  tempFolder,
  within,
} from "../support/process.ts";

/** Two people, two agents, one message, one receipt, new tokens, the end of a session. */
async function story(place: Place, apiKey: string): Promise<{ alpha: LiveAgent; beta: LiveAgent }> {
  const registry = new RegistryClient(deps, place.registryUrl);
  const { registryUrl, proxyUrl } = await registry.metadata();
  assertEquals({ registryUrl, proxyUrl }, place);
  assertEquals((await registry.me(apiKey)).human.role, "admin");
  const { invite } = await registry.createInvite(apiKey);
  const bob = await registry.redeemInvite(invite.code, "Bob");
  assertEquals(bob.proxyUrl, place.proxyUrl);
  await refusedWith("INVITE_REDEEM_ALREADY_USED", registry.redeemInvite(invite.code));

  const alpha = await newAgent(place, apiKey, "alpha");
  const beta = await newAgent(place, bob.apiKey.token, "beta");
  const payload = '{ "message": "Hello beta", "n": 12345678901234567890 }';
  const message = { recipientDid: beta.identity.did, payload };
  await refusedWith("PROXY_AUTH_FORBIDDEN", alpha.client.sendMessage(message));

  const watcher = await Connector.open(place, alpha);
  const { ticket } = await alpha.client.pairStart({ agentName: "alpha", humanName: "Ada" });
  assertEquals((await alpha.client.pairStatus(ticket)).status, "pending");
  await beta.client.pairConfirm(ticket, { agentName: "beta", humanName: "Bob" });
  assertEquals((await alpha.client.pairStatus(ticket)).responderAgentDid, beta.identity.did);
  await eventually(SOON_MS, "the initiator's connector reports the pair", () => watcher.news[0]);
  await refusedWith("PROXY_RELAY_CONNECTOR_OFFLINE", alpha.client.sendMessage(message));

  const connector = await Connector.open(place, beta);
  const sent = await alpha.client.sendMessage(message);
  assertEquals([sent.accepted, sent.delivered, sent.connectedSockets], [true, true, 1]);
  const frame = await connector.frame(1);
  const lines = (JSON.parse(frame.payload) as { message: string }).message.split("\n");
  assertEquals(lines, [
    "[Svc Identity]",
    `agentDid: ${alpha.identity.did}`,
    `ownerDid: ${alpha.agent.ownerDid}`,
    `issuer: ${place.registryUrl}`,
    `aitJti: ${alpha.agent.currentJti}`,
    "",
    "Hello beta",
  ]);
  assert(frame.payload.endsWith(', "n": 12345678901234567890 }'), "every other byte is unchanged (D-71)");
  assertEquals([frame.requestId, frame.fromAgentDid], [sent.requestId, alpha.identity.did]);
  await beta.client.submitReceipt({
    requestId: frame.requestId,
    recipientAgentDid: beta.identity.did,
    senderAgentDid: frame.fromAgentDid,
    status: "processed_by_svc",
    timestamp: frame.ts,
  });
  const { receipts } = await alpha.client.receipts(sent.requestId, beta.identity.did);
  assertEquals(receipts.map((receipt) => receipt.status), ["processed_by_svc"]);
  await watcher.close();
  await connector.close();
  await refreshes(place, alpha, beta);
  return { alpha, beta };
}

/** New tokens replace the old ones at the registry and at the proxy. */
async function refreshes(place: Place, alpha: LiveAgent, beta: LiveAgent): Promise<void> {
  const registry = new RegistryClient(deps, place.registryUrl);
  const fresh = await registry.refresh(alpha.identity, alpha.agentAuth.refreshToken);
  await refusedWith("AGENT_AUTH_REFRESH_INVALID", registry.refresh(alpha.identity, alpha.agentAuth.refreshToken));
  const message = { recipientDid: beta.identity.did, payload: "{}" };
  await refusedWith("PROXY_AGENT_ACCESS_INVALID", alpha.client.sendMessage(message));
  const identity: AgentIdentity = { ...alpha.identity, accessToken: fresh.accessToken };
  alpha.client = new AgentClient(deps, place.proxyUrl, identity);
  await refusedWith("PROXY_RELAY_CONNECTOR_OFFLINE", alpha.client.sendMessage(message));
}

async function codeOf(call: Promise<unknown>): Promise<string | null> {
  return await call.then(() => "accepted", (error) => {
    if (error instanceof ApiError) return error.code;
    throw error;
  });
}

/** Long enough for a few lists at the interval of these tests, 2 s. The default interval is 5 min. */
const LIST_MS = 20_000;

/** The answer about an unknown ticket to an agent with a valid AIT; the route needs no access token. */
const strangeTicket = (agent: LiveAgent) => codeOf(agent.client.pairStatus("svcpair1_unknown"));

/** Revokes a connected agent, and shows that its AIT is refused and its link closed within the time. */
async function revokeConnected(place: Place, apiKey: string, agent: LiveAgent, boundMs: number): Promise<void> {
  const identity = { ...agent.identity, accessToken: agent.client.agent.accessToken };
  const connector = await Connector.open(place, { ...agent, identity });
  assertEquals(await strangeTicket(agent), "PROXY_PAIR_TICKET_NOT_FOUND");
  await new RegistryClient(deps, place.registryUrl).deleteAgent(apiKey, agent.agent.id);
  const message = codeOf(agent.client.sendMessage({ recipientDid: agent.identity.did, payload: "{}" }));
  assert(["PROXY_AGENT_ACCESS_INVALID", "PROXY_AUTH_REVOKED"].includes(String(await message)), `${await message}`);
  await eventually(boundMs, "a route that asks for the AIT alone refuses it", async () => {
    return await strangeTicket(agent) === "PROXY_AUTH_REVOKED" || undefined;
  });
  const { code } = await within(boundMs, "the revoked agent's socket is closed", connector.closed);
  assertEquals(code, CLOSE.notAuthorised);
}

Deno.test("registry and proxy in one process serve two people, two agents and a message", async (t) => {
  await using service = await Service.here();
  const { place } = service;
  const { alpha } = await story(place, service.apiKey);

  await t.step("a revoked agent is refused and its socket closed with 4401, before the next CRL", async () => {
    await revokeConnected(place, service.apiKey, alpha, SOON_MS);
  });
});

Deno.test("registry and proxy apart, each with its own store, serve the same story", async (t) => {
  await using service = await Service.open({ CRL_REFRESH_INTERVAL_MS: "2000" }, true);
  const { place, servers: [registry, proxy] } = service;
  assert(registry && proxy);
  const { alpha, beta } = await story(place, service.apiKey);

  await t.step("neither service has the other's routes", async () => {
    for (const url of [`${place.proxyUrl}/v1/metadata`, `${place.registryUrl}/v1/relay/connect`]) {
      const response = await fetch(url);
      assertEquals([response.status, (await response.json()).error.code], [404, "NOT_FOUND"]);
    }
  });

  await t.step("a revocation reaches the proxy with the next CRL", async () => {
    await revokeConnected(place, service.apiKey, alpha, LIST_MS);
  });

  await t.step("a proxy with a wrong service secret answers 503 and accepts no message", async () => {
    await using folder = await tempFolder();
    const { env } = service.optionsOf(1);
    const secret = { REGISTRY_INTERNAL_SERVICE_SECRET: `svc_srv_${"A".repeat(43)}` };
    await using wrong = await startServerHere({
      folder: folder.path,
      env: { ...env, ...secret, PORT: "0", PROXY_URL: "" },
    });
    const client = new AgentClient(deps, wrong.address, beta.identity);
    const start = client.pairStart({ agentName: "beta", humanName: "Bob" });
    // Which request of the proxy fails first is not fixed: that for the CRL, or that for the owner.
    const error = await assertRejects(() => start, ApiError);
    assertEquals(error.status, 503);
    assert(/^PROXY_(PAIR_OWNERSHIP|AUTH_DEPENDENCY)_UNAVAILABLE$/.test(error.code ?? ""), `${error.code}`);
    await refusedWith("PROXY_AUTH_DEPENDENCY_UNAVAILABLE", client.receipts("request-1", beta.identity.did));
  });

  const gamma = await newAgent(place, service.apiKey, "gamma");
  await pair(gamma, beta);
  await t.step("the proxy refuses requests without the registry and works again when it is back", async () => {
    const connector = await Connector.open(place, beta);
    const message = { recipientDid: beta.identity.did, payload: "{}" };
    await gamma.client.sendMessage(message);
    registry.signal("SIGSTOP");
    const refused = refusedWith("PROXY_AUTH_DEPENDENCY_UNAVAILABLE", gamma.client.sendMessage(message));
    await within(LIST_MS, "the proxy stops waiting for the registry", refused);
    registry.signal("SIGCONT");
    await eventually(LIST_MS, "messages pass again", async () => {
      return await codeOf(gamma.client.sendMessage(message)) === "accepted" || undefined;
    });
    await connector.close();
  });

  await t.step("the proxy gets the CRL also when others have used up the limit of their address", async () => {
    let status = 200;
    for (let i = 0; i <= 30; i++) {
      const response = await fetch(`${place.registryUrl}/v1/crl`);
      await response.body?.cancel();
      status = response.status;
    }
    assertEquals(status, 429, "the 31st of a minute");
    await revokeConnected(place, service.apiKey, gamma, LIST_MS);
  });

  await t.step("the proxy stops by itself while the registry continues", async () => {
    assertEquals((await proxy.end("SIGTERM")).code, 0);
    assertEquals((await new RegistryClient(deps, place.registryUrl).metadata()).registryUrl, place.registryUrl);
  });
});
