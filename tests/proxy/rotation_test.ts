/** Shows that two rotations of the signing key within 30 s refuse no token, in one process and in separate ones. */
import { assertEquals } from "@std/assert";
import { rotateKey } from "../support/registry_world.ts";
import { PROXY_URL, type TestAgent, World } from "../support/world.ts";

const peers = async (w: World, a: TestAgent) => {
  const answer = await w.fetch(await w.signed(a, { method: "GET", target: "/pair/peers", base: PROXY_URL }));
  await answer.body?.cancel();
  return answer.status;
};

Deno.test("many concurrent rotations in one process are each followed at the new key's first use", async () => {
  await using w = await World.open({ sharedProcess: true });
  await w.proxy.start();
  const old = await w.agent();
  assertEquals(await peers(w, old), 200);
  for (let i = 0; i < 3; i++) {
    await rotateKey(w);
    assertEquals([await peers(w, await w.agent()), await peers(w, old)], [200, 200]);
  }
});

Deno.test("separate services refuse no new token around two rotations within 30 s", async () => {
  await using w = await World.open();
  await w.proxy.start();
  const old = await w.agent();
  const statuses = new Set([await peers(w, old)]);
  await rotateKey(w);
  for (let seconds = 0; seconds < 60; seconds += 10) {
    if (seconds === 20) await rotateKey(w);
    statuses.add(await peers(w, await w.agent()));
    statuses.add(await peers(w, old));
    await w.clock.advance(10_000);
  }
  assertEquals([...statuses], [200]);
});

Deno.test("a fetch of the keys that began before a rotation does not hide the new key", async () => {
  await using w = await World.open({ sharedProcess: true });
  const answered = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  let isHeld = false;
  const { keys } = w.proxy.deps;
  const heldAnswer = async (request: Request) => {
    const answer = await w.registry.fetch(request, { from: "process" });
    asked.resolve();
    await answered.promise;
    return answer;
  };
  w.registryAnswer = (request) => {
    if (isHeld || !request.url.endsWith("svc-keys.json")) return null;
    isHeld = true;
    return heldAnswer(request);
  };
  const before = keys.current();
  await asked.promise;
  await rotateKey(w);
  const { identity } = await w.agent();
  answered.resolve();
  const { kid } = JSON.parse(atob(identity.ait.split(".")[0] ?? ""));
  assertEquals([(await before).has(kid), (await keys.current()).has(kid)], [true, true]);
});
