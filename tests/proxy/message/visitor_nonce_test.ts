/** A message of a visiting agent whose last check meets a fault of the store. */
import { assert } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { provePairKey } from "../../../shared/protocol/pair_key.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { ForeignIssuer } from "../../support/foreign_issuer.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { answered, outcome } from "../../support/registry_world.ts";
import type { TestAgent } from "../../support/world.ts";
import { openProxy, post, ticketOf } from "../proxy_world.ts";

const THEIRS = { agentName: "beta", humanName: "Bob" }, SECRET = "A".repeat(22);

Deno.test("a visitor's message uses up its nonce when its pair cannot be read", async () => {
  using store = await FaultyKv.open();
  const clock = new ManualClock(), issuer = await ForeignIssuer.open(clock);
  await using w = await openProxy({ clock, abroad: issuer.abroad, sharedProcess: true, kv: store.kv });
  const alpha = await w.agent(), beta = (await issuer.agent()) as unknown as TestAgent;
  const keyOf = ({ agent, keys }: TestAgent, role: "initiator" | "responder") =>
    provePairKey(SECRET, { role, did: agent.did, profile: THEIRS }, keys.publicKey);
  const ticket = await ticketOf(w, alpha, { initiatorKey: await keyOf(alpha, "initiator") });
  const confirm = { ticket, responderProfile: THEIRS, responderKey: await keyOf(beta, "responder") };
  await answered(await post(w, beta, "/pair/confirm", confirm), 201);
  w.connect(alpha);
  await w.connected();
  await answered(await w.message(beta, alpha), 202);
  const pair = JSON.stringify(KEYS.pair(alpha.agent.did, beta.agent.did));
  const version = async () => (await w.kv.get(KEYS.sender(beta.agent.did))).versionstamp;
  const before = await version();
  store.faults.fails = ({ method, keys }) => method === "get" && JSON.stringify(keys[0]) === pair;
  assert((await outcome(await w.message(beta, alpha))).startsWith("503"));
  delete store.faults.fails;
  assert(await version() !== before, "the nonce is stored");
});
