/**
 * An admin sees the relay over sockets (D-172), here with separate services and an agent that connects and leaves.
 * An API key that reaches the proxy is refused and is not logged.
 */
import { assert, assertEquals } from "@std/assert";
import { Connector, eventually, messageTo, Service, SOON_MS } from "../support/process.ts";

async function tokenOf({ place, apiKey }: Service): Promise<{ token: string; audience: string }> {
  const headers = { Authorization: `Bearer ${apiKey}` };
  const answer = await fetch(`${place.registryUrl}/v1/admin/tokens`, { method: "POST", headers });
  assertEquals(answer.status, 201);
  return await answer.json();
}

// deno-lint-ignore no-explicit-any -- the shapes are checked in tests/proxy/admin
async function look(proxyUrl: string, path: string, token: string): Promise<{ status: number; body: any }> {
  const headers = { Authorization: `Bearer ${token}` };
  const answer = await fetch(`${proxyUrl}/v1/admin/relay/${path}`, { headers });
  return { status: answer.status, body: await answer.json() };
}

Deno.test("an admin sees the relay of a separate proxy with a token of the registry", async () => {
  await using service = await Service.open({}, true);
  const { a, b } = await service.agents();
  const { token, audience } = await tokenOf(service);
  assertEquals(audience, service.url);
  const get = async (path: string) => {
    const { status, body } = await look(service.url, path, token);
    assertEquals(status, 200, JSON.stringify(body));
    return body;
  };
  assertEquals((await get("connections")).connections, []);
  const connector = await Connector.open(service.place, b);
  const online = await eventually(SOON_MS, "b is online", async () => {
    const { connections } = await get("connections?online=true");
    return connections[0] as { agentDid: string; disconnectedAt: string | null } | undefined;
  });
  assertEquals([online.agentDid, online.disconnectedAt], [b.identity.did, null]);
  const { requestId } = await a.client.sendMessage(messageTo(b));
  await eventually(SOON_MS, "the message is acknowledged", async () => {
    const { deliveries } = await get(`deliveries?requestId=${requestId}`);
    return deliveries[0]?.state === "acked" ? true : undefined;
  });
  await connector.close();
  await eventually(SOON_MS, "b is offline", async () => {
    const { connections } = await get("connections?online=false");
    return connections[0]?.disconnectedAt ? true : undefined;
  });
  assertEquals((await get("queues")).queues, []);
  for (const credential of [service.apiKey, a.identity.ait]) {
    const { status, body } = await look(service.url, "refusals", credential);
    assertEquals([status, body.error.code], [401, "PROXY_ADMIN_TOKEN_INVALID"]);
  }
  const { refusals } = await get("refusals");
  assertEquals(refusals.map(({ code, route }: { code: string; route: string }) => [code, route]), [
    ["PROXY_ADMIN_TOKEN_INVALID", "/v1/admin/relay/refusals"],
    ["PROXY_ADMIN_TOKEN_INVALID", "/v1/admin/relay/refusals"],
  ]);
  for (const { printed } of service.servers) {
    for (const secret of [service.apiKey, token, a.identity.ait]) assert(!printed.includes(secret.slice(8)));
  }
});
