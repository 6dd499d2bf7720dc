/** The usual participants of a test of visitors: an agent here and one of another registry, and how they pair and write. */
import { provePairKey } from "../../../shared/protocol/pair_key.ts";
import { type ForeignAgent, ForeignIssuer } from "../../support/foreign_issuer.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import type { TestAgent, World, WorldOptions } from "../../support/world.ts";
import { openProxy, post, ticketOf } from "../proxy_world.ts";

export const THEIRS = { agentName: "beta", humanName: "Bob" };
const SECRET = "A".repeat(22);

/** Opens a world beside another registry, with an agent of each. */
export async function cast(options: WorldOptions = {}) {
  const clock = new ManualClock();
  const b = await ForeignIssuer.open(clock);
  const w = await openProxy({ clock, abroad: b.abroad, sharedProcess: true, ...options });
  return { w, b, alpha: await w.agent(), beta: await b.agent() };
}

export async function keyOf(agent: { keys: { publicKey: string } }, role: "initiator" | "responder", did: string) {
  return await provePairKey(SECRET, { role, did, profile: THEIRS }, agent.keys.publicKey);
}

export async function keyedTicket(w: World, agent: TestAgent): Promise<string> {
  return await ticketOf(w, agent, { initiatorKey: await keyOf(agent, "initiator", agent.agent.did) });
}

export async function confirm(w: World, agent: ForeignAgent, ticket: string, withKey = true): Promise<Response> {
  const responderKey = withKey ? await keyOf(agent, "responder", agent.agent.did) : undefined;
  return await post(w, agent as unknown as TestAgent, "/pair/confirm", {
    ticket,
    responderProfile: THEIRS,
    responderKey,
  });
}

export const send = (w: World, from: ForeignAgent, to: TestAgent, headers: Record<string, string | null> = {}) =>
  w.message(from as unknown as TestAgent, to, { headers });
