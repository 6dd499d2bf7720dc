/**
 * Many instances act as one within the limits of a KV Connect server: a denokv, or a store in memory with its bound on the
 * checks of a commit. Without that bound no two instances share a store, because a lock keeps a file to one process.
 */
import { assert } from "@std/assert";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { instancesBehaveAsOne } from "./instances_suite.ts";
import { type SharedStore, sharedStore } from "./two_instances.ts";
import { IS_REMOTE } from "../../support/test_store.ts";
import { IS_LONG } from "../../support/trials.ts";

async function inMemory(): Promise<SharedStore> {
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
}

// The gate has a third of them on a denokv, because a store in memory with the same bound has all.
if (IS_REMOTE) instancesBehaveAsOne("over denokv", sharedStore, IS_LONG ? 1 : 3);
else instancesBehaveAsOne("ten checks a commit", inMemory);
