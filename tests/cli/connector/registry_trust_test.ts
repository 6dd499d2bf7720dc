/** What a connector believes of its registry's revocation list when it gets none, or an older one, and what it saves. */
import { assertEquals, assertRejects } from "@std/assert";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { TokenError } from "../../../shared/protocol/signed/jws.ts";
import { parseAit, readAitClaims } from "../../../shared/protocol/signed/ait.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { registryTrust, type TrustSource } from "../../../cli/connector/registry_trust.ts";
import { Undecided } from "../../../cli/link/reconnect.ts";
import { rotateKey } from "../../support/registry_world.ts";
import { signedToken } from "../../support/tokens.ts";
import { World } from "../../support/world.ts";
import { claimsOf } from "../../proxy/proxy_world.ts";
import { trustOf, trustSource } from "./bench.ts";
import { contextOf } from "./context.ts";
import { folderOf, machineWithAlpha } from "./local_machine.ts";

const DAY = 86_400;

Deno.test("a connector that starts while the registry answers 429 believes for a day that there is no list, because it said so before", async () => {
  await using world = await World.open();
  const source = trustSource(world);
  const ready = async (list: TrustSource["list"]) => await trustOf(world, { ...source, list }).ready();
  const refused = () => Promise.reject(new Error("429"));
  await assertRejects(() => ready(refused), Undecided, "the revocation list is unknown");
  await ready(source.list);
  world.clock.step(DAY * 1000);
  await ready(refused);
  world.clock.step(1);
  await assertRejects(() => ready(refused), Undecided, "the revocation list is unknown");
});

Deno.test("a connector that gets the older list of a restored registry says what to do", async () => {
  await using world = await World.open();
  const source = trustSource(world), [a, b] = [await world.agent(), await world.agent()];
  await world.client.deleteAgent(a.owner.apiKey, a.agent.id);
  const older = await source.list();
  await world.client.deleteAgent(b.owner.apiKey, b.agent.id);
  let list = await source.list();
  const trust = trustOf(world, { ...source, list: () => Promise.resolve(list) });
  await trust.ready();
  list = older;
  world.clock.step(DAY * 1000 + 1);
  await assertRejects(() => trust.ready(), Undecided, "if it was restored from a backup, start this connector again");
});

Deno.test("a list that the registry, or what is on the way to it, repeats for a day does not hide later revocations", async () => {
  await using world = await World.open();
  const agent = await world.agent();
  await world.client.deleteAgent(agent.owner.apiKey, agent.agent.id);
  const old = await trustSource(world).list();
  const trust = trustOf(world, { ...trustSource(world), list: () => Promise.resolve(old) });
  await trust.ready();
  world.clock.step(DAY * 1000 - 1_000);
  await trust.ready();
  world.clock.step(2_000);
  await assertRejects(() => trust.ready(), Undecided, "the registry answers with a list that is over a day old");
});

Deno.test("an answer of the registry does not bring back a configuration folder that was removed meanwhile", async () => {
  await using world = await World.open();
  await using machine = await machineWithAlpha(world);
  const folder = await folderOf(machine, "alpha");
  await registryTrust(contextOf(world, machine), folder).ready();
  assertEquals((await Deno.stat(`${machine.dir}/keys`)).isDirectory, true);
  const removed = async (input: string | URL | Request, init?: RequestInit) => {
    const answer = await world.fetch(input, init);
    await Deno.remove(machine.dir, { recursive: true }).catch(() => {});
    return answer;
  };
  await registryTrust({ ...contextOf(world, machine), fetch: removed as typeof fetch }, folder).ready();
  await assertRejects(() => Deno.stat(machine.dir), Deno.errors.NotFound);
  await Deno.mkdir(machine.dir);
});

Deno.test("a registry that says it has no list, after a connector has saved one, hides no revocation", async () => {
  await using world = await World.open();
  const source = trustSource(world), { agent, owner, identity } = await world.agent();
  await world.client.deleteAgent(owner.apiKey, agent.id);
  const saved = await source.list();
  const trust = trustOf(world, { ...source, list: () => Promise.resolve(null), savedList: () => saved });
  await trust.ready();
  const claims = readAitClaims(parseAit(identity.ait));
  assertEquals(await trust.isRevoked(claims, unixSeconds(world.clock.now())), true);
  world.clock.step(DAY * 1000 + 1);
  await assertRejects(() => trust.ready(), Undecided, "withholds its revocation list");
});

Deno.test("a token that was genuine is refused once its key is published no longer, also when another call has read the keys", async () => {
  await using world = await World.open();
  const { keys } = trustSource(world), { identity: { ait } } = await world.agent();
  let isWithdrawn = false;
  const trust = trustOf(world, {
    keys: async () => isWithdrawn ? { ...await keys(), keys: new Map() } : await keys(),
  });
  await trust.claimsOf(ait, () => false);
  isWithdrawn = true;
  await trust.claimsOf(ait, () => false);
  world.clock.step(301_000);
  await trust.ready();
  await assertRejects(() => trust.claimsOf(ait, () => false), TokenError, "not published by the registry");
});

Deno.test("a token of a new key is believed also just after the keys were read, and forged ones cost four requests a minute", async () => {
  await using world = await World.open({ sharedProcess: true });
  const { keys } = trustSource(world), { identity: { ait } } = await world.agent();
  let asked = 0;
  const trust = trustOf(world, { keys: () => (asked++, keys()) });
  await trust.ready();
  for (let rotations = 0; rotations < 2; rotations++) {
    await rotateKey(world);
    const { identity } = await world.agent();
    const asking = Array.from({ length: 10 }, () => trust.claimsOf(identity.ait, () => false));
    assertEquals(new Set((await Promise.all(asking)).map(({ sub }) => sub)), new Set([identity.did]));
  }
  assertEquals(asked, 3);
  const { privateKey } = await keyPairFromSeed(new Uint8Array(32).fill(42));
  for (let i = 0; i < 10; i++) {
    const forged = await signedToken({ alg: "EdDSA", typ: "AIT", kid: `forged-${i}` }, claimsOf(ait), privateKey);
    await assertRejects(() => trust.claimsOf(forged, () => false), TokenError, "not published by the registry");
  }
  assertEquals(asked, 5);
});
