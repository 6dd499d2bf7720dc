/** A store whose file another program locks for a moment. */
import { assertEquals } from "@std/assert";
import { wrapStoreErrors } from "../../../shared/server/store/store_errors.ts";
import { intercept, WriteWatch } from "../../../shared/server/write_watch.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { outcome } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import { openCast } from "../cast.ts";

Deno.test("a commit that a locked file delays is not tried again after the session has ended", async () => {
  // A store over a network has no such file, so this one is in memory in every run.
  using kv = await Deno.openKv(":memory:");
  let isLocked = false, refused = 0;
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const keys: Deno.KvKey[] = [];
    return intercept(atomic(), {
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
  const { w, a, b, socket } = await openCast({ kv, writes, sharedProcess: true, maxChecks: LIMITS.commitChecks });
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
