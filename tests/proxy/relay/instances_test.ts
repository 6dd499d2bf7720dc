/** Many instances act as one on an embedded store and within the limits of a KV Connect server. */
import { assert } from "@std/assert";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { wrapStoreErrors } from "../../../shared/server/store/store_errors.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { instancesBehaveAsOne } from "./instances_suite.ts";
import { IS_REMOTE, MAX_CHECKS, openTestKv } from "../../support/test_store.ts";

instancesBehaveAsOne(IS_REMOTE ? "over denokv" : "in memory", async () => {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  return { kv, maxChecks: MAX_CHECKS, [Symbol.asyncDispose]: async () => await kv.close() };
});

// The bound of a denokv is the real one.
if (!IS_REMOTE) {
  instancesBehaveAsOne("ten checks a commit", async () => {
    const maxChecks = LIMITS.commitChecksConnect;
    const faulty = await FaultyKv.open({ maxChecks });
    return {
      kv: faulty.kv,
      maxChecks,
      async [Symbol.asyncDispose]() {
        assert(faulty.mostChecks <= maxChecks, `a commit held ${faulty.mostChecks} checks`);
        await faulty[Symbol.dispose]();
      },
    };
  });
}
