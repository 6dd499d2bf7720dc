/** A server whose start fails ends, also while a client waits for its answer, and says what to change. */
import { assertEquals, assertRejects } from "@std/assert";
import { startServer } from "../../deploy.ts";
import { Entry } from "../../shared/server/http/entry.ts";
import { openStore, StoreRefused } from "../../shared/server/store/open_store.ts";
import { freePort, SOON_MS, within } from "../support/process.ts";

const TOKEN = "DENO_KV_ACCESS_TOKEN";

Deno.test("a start that the store fails ends although a request waits, which gets 503", async () => {
  const before = Deno.env.get(TOKEN), port = String(freePort());
  let asked: Promise<Response> | null = null;
  const { answer: pass } = Entry.prototype, waits = Promise.withResolvers<void>();
  Entry.prototype.answer = function (...args) {
    waits.resolve();
    return pass.apply(this, args);
  };
  /** A store over the network that can be found and refuses each call, the first one once a request waits. */
  const store = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async ({ url }) => {
    if (new URL(url).pathname === "/") {
      const endpoints = [{ url: new URL("/v2", url).href, consistency: "strong" }];
      const expiresAt = "2100-01-01T00:00:00Z";
      return Response.json({ version: 2, databaseId: crypto.randomUUID(), endpoints, token: "t", expiresAt });
    }
    asked ??= fetch(`http://127.0.0.1:${port}/v1/metadata`);
    await waits.promise;
    return new Response(null, { status: 403 });
  });
  Deno.env.set(TOKEN, "token");
  try {
    const variables: Record<string, string> = {
      KV_URL: `http://127.0.0.1:${store.addr.port}`,
      [TOKEN]: "token",
      PORT: port,
    };
    const started = startServer((name) => variables[name], () => {});
    await assertRejects(
      () => within(SOON_MS, "the start", started),
      StoreRefused,
      "Cannot use the store at http://127",
    );
    const answer = await (asked as Promise<Response> | null);
    await answer?.body?.cancel();
    assertEquals(answer?.status, 503);
  } finally {
    Entry.prototype.answer = pass;
    if (before === undefined) Deno.env.delete(TOKEN);
    else Deno.env.set(TOKEN, before);
    await store.shutdown();
  }
});

Deno.test("a missing token of the store, and one with a line end, at which Deno panics, are refused", async () => {
  const before = Deno.env.get(TOKEN);
  Deno.env.set(TOKEN, "a-token-of-a-file\n");
  try {
    await assertRejects(() => openStore("http://127.0.0.1:1"), StoreRefused, `${TOKEN} has a line end`);
    Deno.env.delete(TOKEN);
    await assertRejects(() => openStore("http://127.0.0.1:1"), StoreRefused, `${TOKEN} is missing. Set it`);
  } finally {
    if (before === undefined) Deno.env.delete(TOKEN);
    else Deno.env.set(TOKEN, before);
  }
});
