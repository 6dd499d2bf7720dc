/** A store whose file another program locks for a moment, or that is slow. */
import { assertEquals } from "@std/assert";
import { wrapStoreErrors } from "../../../shared/server/store/store_errors.ts";
import { observed, WriteWatch } from "../../../shared/server/write_watch.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Kv } from "../../../shared/server/kv.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { outcome } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { openCast } from "../cast.ts";

Deno.test("a commit that a locked file delays is not tried again after the session has ended", async () => {
  // A store over a network has no such file, so this one is in memory in every run.
  using file = await Deno.openKv(":memory:");
  const kv: Kv = file;
  let isLocked = false, refused = 0;
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const keys: Deno.KvKey[] = [];
    return observed(atomic(), {
      writes: (key) => keys.push(key),
      commit: (run) => {
        if (!isLocked || !keys.some((key) => key[1] === "sender")) return run();
        refused++;
        return Promise.reject(new TypeError("database is locked"));
      },
    });
  };
  const writes = new WriteWatch(kv);
  wrapStoreErrors(kv);
  const { w, a, b, socket } = await openCast({ kv: file, writes, sharedProcess: true, maxChecks: LIMITS.commitChecks });
  await using _ = w;
  // The records of the first messages are held after them, so the next commit does not check the session.
  for (let i = 0; i < 3; i++) assertEquals(await outcome(await w.message(a, b)), "202");
  isLocked = true;
  const sending = w.message(a, b);
  await until(() => refused > 0);
  const ended = await w.ask("DELETE", `/v1/agents/${a.agent.id}/auth/revoke`, { apiKey: a.owner.apiKey });
  isLocked = false;
  assertEquals([ended.status, socket.delivered.length], [204, 3]);
  assertEquals([await outcome(await sending), socket.delivered.length], ["401 PROXY_AGENT_ACCESS_INVALID", 3]);
});

Deno.test("over a network, a commit that takes seconds does not let a message pass after its session has ended", async () => {
  using store = await FaultyKv.open();
  const { w, a, b, socket } = await openCast({
    kv: store.kv,
    sharedProcess: true,
    maxChecks: LIMITS.commitChecksConnect,
  });
  await using _ = w;
  for (let i = 0; i < 3; i++) assertEquals(await outcome(await w.message(a, b)), "202");
  for (const isRevoked of [false, true]) {
    const held = Promise.withResolvers<void>();
    let isHeld = false;
    store.faults.before = ({ method, keys }) => {
      if (method !== "commit" || isHeld || !keys.some((key) => key[1] === "sender")) return;
      isHeld = true;
      return held.promise;
    };
    const before = socket.delivered.length, sending = w.message(a, b);
    await until(() => isHeld);
    if (isRevoked) await w.ask("DELETE", `/v1/agents/${a.agent.id}/auth/revoke`, { apiKey: a.owner.apiKey });
    await w.clock.advance(5_000);
    held.resolve();
    const result = isRevoked ? "401 PROXY_AGENT_ACCESS_INVALID" : "202";
    assertEquals([await outcome(await sending), socket.delivered.length - before], [result, isRevoked ? 0 : 1]);
  }
  assertEquals(await outcome(await w.message(a, b)), "401 PROXY_AGENT_ACCESS_INVALID");
});
