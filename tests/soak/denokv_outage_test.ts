/** A server whose denokv is killed: what its users see meanwhile, and that everything goes on by itself. */
import { assert, assertEquals } from "@std/assert";
import { confirmCommits } from "../../shared/server/confirmed_commits.ts";
import { accessToken, Denokv, findDenokv } from "../support/denokv.ts";
import { eventually, messageTo, refusedWith, Service, tempFolder } from "../support/process.ts";
import { SlowLink } from "../tools/slow_link.ts";

const denokv = await findDenokv();

/** Within this time a message has an answer, because its client gives up after 30 s: one call of 10 s, later ones of 1 s. */
const ANSWERED_MS = 20_000;
/** The second message may wait for its first read, as the first one waits for its commit. */
const LIMITS_MS = [ANSWERED_MS, ANSWERED_MS, ANSWERED_MS / 4];
/** Time that bytes take one way, so that an answer is on its way for as long. */
const LINK_MS = 150;

Deno.test({
  name: "messages are 503 within 20 s while denokv is gone, and use the same socket when it is back",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    await using store = await Denokv.start(denokv ?? "", `${folder.path}/denokv.sqlite`);
    await using service = await Service.open({ KV_URL: store.address, DENO_KV_ACCESS_TOKEN: accessToken() });
    const { a, b } = await service.agents();
    const connector = await service.connect(b);
    assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
    const ready = async () => {
      const answer = await fetch(`${service.url}/readyz`);
      await answer.body?.cancel();
      return answer.status;
    };
    assertEquals(await ready(), 200);
    await store.kill();
    for (const limit of LIMITS_MS) {
      const began = performance.now();
      await refusedWith("PROXY_AUTH_DEPENDENCY_UNAVAILABLE", a.client.sendMessage(messageTo(b)));
      assert(performance.now() - began < limit, `an answer within ${limit} ms`);
    }
    assertEquals(await ready(), 503);
    await store.restart();
    await eventually(
      30_000,
      "a message is delivered",
      () => a.client.sendMessage(messageTo(b, "back")).then(({ delivered }) => delivered, () => undefined),
    );
    await eventually(10_000, "the server is ready", async () => await ready() === 200 || undefined);
    assertEquals(connector.frames.length, 2);
    await connector.close();
    assertEquals((await service.server.end()).code, 0);
  },
});

Deno.test({
  name: "a commit that Deno repeats, because its answer was lost, is answered as committed",
  ignore: denokv === null,
  async fn() {
    await using store = await Denokv.start(denokv ?? "");
    await using link = new SlowLink(store.address);
    using kv = await Deno.openKv(link.address);
    using direct = await Deno.openKv(store.address);
    confirmCommits(kv, "test");
    await kv.get(["warm"]);
    link.delayMs = LINK_MS;
    for (let i = 0; i < 5; i++) {
      const key = ["once", i];
      const committed = kv.atomic().check({ key, versionstamp: null }).set(key, i).commit();
      await eventually(10_000, "the commit has arrived", async () => (await direct.get(key)).value === i || undefined);
      link.reset();
      const result = await committed;
      assert(result.ok);
      assertEquals(result.versionstamp, (await direct.get(key)).versionstamp);
    }
  },
});
