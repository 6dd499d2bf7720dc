/** The link of the tests with a delay: what it adds, holds and ends. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SlowLink } from "./slow_link.ts";

/** A server that answers each request with its path. */
function echo(): Deno.HttpServer<Deno.NetAddr> {
  const answer = (request: Request) => new Response(new URL(request.url).pathname);
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, answer);
}

async function ask(link: SlowLink, path: string): Promise<string> {
  return await (await fetch(`${link.address}${path}`)).text();
}

Deno.test("the link adds its delay each way and carries large bodies whole", async () => {
  await using server = echo();
  await using link = new SlowLink(`127.0.0.1:${server.addr.port}`, 30);
  assertEquals(await ask(link, "/first"), "/first");
  const began = performance.now();
  assertEquals(await ask(link, "/second"), "/second");
  const took = performance.now() - began;
  assert(took >= 58, `60 ms there and back, took ${took}`);
  const long = `/${"x".repeat(12_000)}`;
  assertEquals(await ask(link, long), long);
});

Deno.test("a stalled link holds bytes until it is healed, and a cut or reset link ends connections", async () => {
  await using server = echo();
  await using link = new SlowLink(`127.0.0.1:${server.addr.port}`);
  assertEquals(await ask(link, "/before"), "/before");
  link.stall();
  let isAnswered = false;
  const held = ask(link, "/held").finally(() => isAnswered = true);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assertEquals(isAnswered, false);
  link.heal();
  assertEquals(await held, "/held");

  link.cut();
  assertEquals(link.connections, 0);
  await assertRejects(() => ask(link, "/cut"), TypeError);
  link.heal();
  assertEquals(await ask(link, "/healed"), "/healed");

  const before = link.connections;
  using idle = await Deno.connect({ hostname: "127.0.0.1", port: Number(new URL(link.address).port) });
  while (link.connections === before) await new Promise((resolve) => setTimeout(resolve, 1));
  const end = idle.read(new Uint8Array(1));
  link.reset();
  assertEquals(await end.catch(() => null), null);
  assertEquals(await ask(link, "/again"), "/again");
});
