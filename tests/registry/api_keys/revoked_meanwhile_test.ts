/** A request that began before its API key was revoked, or its person suspended, changes nothing after that. */
import { assertEquals } from "@std/assert";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { answered, openRegistry, outcome } from "../../support/registry_world.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import type { World } from "../../support/world.ts";
import { registration } from "../steps.ts";

async function furtherKey(w: World, { apiKey }: { apiKey: string }): Promise<{ id: string; token: string }> {
  const answer = await w.ask("POST", "/v1/me/api-keys", { apiKey });
  return (await answered<{ apiKey: { id: string; token: string } }>(answer, 201)).apiKey;
}

/** Sends all of a request but the end of its body. The returned function sends the end. */
async function begin(w: World, method: string, path: string, apiKey: string, body: string) {
  const text = utf8Bytes(body), half = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>();
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => {
      controller.enqueue(text.slice(0, 1));
      half.resolve(controller);
    },
  });
  const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
  const answer = w.fetch(w.registryUrl + path, { method, headers, body: stream });
  await flushTasks();
  return async () => {
    const controller = await half.promise;
    controller.enqueue(text.slice(1));
    controller.close();
    return await outcome(await answer);
  };
}

Deno.test("a thief whose request waits for its body gets no new API key after the revocation of the stolen one", async () => {
  await using w = await openRegistry();
  const owner = await w.person();
  const stolen = await furtherKey(w, owner);
  const finish = await begin(w, "POST", "/v1/me/api-keys", stolen.token, '{"name":"mine"}');
  await answered(await w.ask("DELETE", `/v1/me/api-keys/${stolen.id}`, owner), 204);
  assertEquals(await finish(), "401 API_KEY_REVOKED");
});

Deno.test("an admin key that is revoked meanwhile makes no invite, and a revoked key registers no agent", async () => {
  await using w = await openRegistry();
  const admin = await w.admin();
  const stolen = await furtherKey(w, admin);
  const invite = await begin(w, "POST", "/v1/invites", stolen.token, "{}");
  // Its body is what a registration with this key sends.
  let body = "";
  const { ask } = w;
  const send = await registration(w, { apiKey: stolen.token });
  w.ask = (_method, _path, parts) => {
    body = JSON.stringify(parts?.body);
    return Promise.resolve(new Response());
  };
  await send();
  w.ask = ask;
  const agent = await begin(w, "POST", "/v1/agents", stolen.token, body);
  await answered(await w.ask("DELETE", `/v1/me/api-keys/${stolen.id}`, admin), 204);
  assertEquals([await invite(), await agent()], ["401 API_KEY_REVOKED", "401 API_KEY_REVOKED"]);
});

Deno.test("a person who is suspended meanwhile gets no new API key", async () => {
  await using w = await openRegistry();
  const owner = await w.person(), admin = await w.admin();
  const finish = await begin(w, "POST", "/v1/me/api-keys", owner.apiKey, '{"name":"mine"}');
  await answered(await w.ask("POST", `/v1/admin/people/${owner.id}/suspend`, { apiKey: admin.apiKey, body: {} }));
  assertEquals(await finish(), "403 ACCOUNT_SUSPENDED");
});
