/**
 * The guarantees of many instances on the store that KV_URL names: a KV Connect server, with DENO_KV_ACCESS_TOKEN. It
 * must be empty, and is emptied after each test. Without KV_URL the test prints that it checks nothing.
 */
import { openStore } from "../../shared/server/store/open_store.ts";
import { instancesBehaveAsOne, type SharedStore } from "../proxy/relay/instances_suite.ts";

const SKIPPED = "many instances over KV Connect: not run, KV_URL is not set";

async function openEmpty(url: string): Promise<SharedStore> {
  const store = await openStore(url);
  const { kv, maxChecks } = store;
  if (!(await kv.list({ prefix: [] }, { limit: 1 }).next()).done) {
    store.close();
    throw new Error(`The store at ${url} holds records. The tests empty it: name one that is empty.`);
  }
  return {
    kv,
    maxChecks,
    async [Symbol.asyncDispose]() {
      for await (const { key } of kv.list({ prefix: [] })) await kv.delete(key);
      store.close();
    },
  };
}

const url = Deno.env.get("KV_URL");
if (url) {
  instancesBehaveAsOne(`over ${url}`, () => openEmpty(url));
} else {
  console.log(SKIPPED);
  Deno.test.ignore(SKIPPED, () => {});
}
