/** Operations of people and agents at the registry in a simulation: invites, registrations, sessions, revocations. */
import { ApiError, UnreachableError } from "../support/agent_client.ts";
import type { RegisterAnswer, ReissueAnswer } from "../../shared/protocol/api/agents.ts";
import type { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import type { CrlClaims } from "../../shared/protocol/signed/crl.ts";
import { keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { parseJws } from "../../shared/protocol/signed/jws.ts";
import { BOOTSTRAP_SECRET } from "../support/world.ts";
import { type Actor, identityOf, keep, type Person, registry, tried } from "./cast.ts";
import type { Simulation } from "./simulation.ts";

export function addPerson(sim: Simulation, apiKey: string): void {
  const name = sim.next("P");
  sim.cast.people.push({ name, apiKey: keep(sim, apiKey, `key of ${name}`) });
}

export async function createInvite(sim: Simulation): Promise<void> {
  const admin = sim.cast.people[0];
  if (!admin) return;
  const answer = await tried(registry(sim, { name: "invite" }).createInvite(admin.apiKey));
  if (!answer) return;
  const name = sim.next("I");
  sim.cast.invites.push({ name, code: keep(sim, answer.invite.code, name) });
}

export async function redeemInvite(sim: Simulation): Promise<void> {
  const invite = sim.chance(70) ? sim.cast.invites.at(-1) : sim.choose(sim.cast.invites);
  if (!invite) return;
  const thing = `invite ${invite.name}`;
  const answer = await tried(
    registry(sim, {
      name: `redeem ${invite.name}`,
      served: (_, serving) => sim.write({ kind: "used", thing, by: `request ${serving}` }),
    }).redeemInvite(invite.code, "Someone"),
  );
  if (answer) addPerson(sim, answer.apiKey.token);
}

export async function bootstrapAgain(sim: Simulation): Promise<void> {
  await tried(
    registry(sim, {
      name: "bootstrap",
      served: (_, serving) => sim.write({ kind: "used", thing: "bootstrap", by: `request ${serving}` }),
    }).bootstrap(BOOTSTRAP_SECRET),
  );
}

export async function register(sim: Simulation): Promise<void> {
  if (sim.cast.actors.length < 4) await registerFor(sim, sim.choose(sim.cast.people));
}

export async function registerFor(sim: Simulation, owner: Person | undefined): Promise<void> {
  if (!owner) return;
  const name = sim.next("A");
  const keys = await keyPairFromSeed(sim.deps.random.bytes(32));
  const challenge = await tried(
    registry(sim, { name: `challenge of ${name}` }).challenge(owner.apiKey, keys.publicKey),
  );
  if (!challenge) return;
  const registered = (body: unknown, serving: number) => {
    const { agent, ait, agentAuth } = body as RegisterAnswer;
    sim.name(agent.did, name);
    for (const text of [ait, agent.currentJti]) sim.name(text, `${name} ait 1`);
    nameTokens(sim, `${name} session 1`, agentAuth);
    sim.write({ kind: "used", thing: `challenge of ${name}`, by: `request ${serving}` });
  };
  const call = { name: `register ${name}`, served: registered };
  const answer = await tried(
    registry(sim, call).answerChallenge(owner.apiKey, keys, { name: name.toLowerCase() }, challenge),
  );
  if (!answer) return;
  const { agent, ait, agentAuth: { accessToken, refreshToken } } = answer;
  sim.cast.actors.push({ name, owner, agent, keys, ait, accessToken, refreshTokens: [refreshToken], isUnsure: false });
}

/** Names the tokens of a session's next generation. Returns its number. */
function nameTokens(sim: Simulation, session: string, { accessToken, refreshToken }: AgentAuth): number {
  const generation = Number(sim.next(`${session} generation `).split(" ").at(-1));
  keep(sim, accessToken, session);
  keep(sim, refreshToken, `${session} generation ${generation}`);
  return generation;
}

/** The session and the generation of a refresh token. */
function generationOf(sim: Simulation, refreshToken: string): [session: string, generation: number] {
  const [session = "", generation] = sim.nameOf(refreshToken).split(" generation ");
  return [session, Number(generation)];
}

export async function refresh(sim: Simulation, actor = sim.choose(sim.cast.actors)): Promise<void> {
  if (actor) await refreshWith(sim, actor, actor.refreshTokens.at(-1), actor.isUnsure);
}

export async function refreshWithOldToken(sim: Simulation): Promise<void> {
  const actor = sim.choose(sim.cast.actors);
  if (actor) await refreshWith(sim, actor, sim.choose(actor.refreshTokens), sim.chance(50));
}

async function refreshWith(
  sim: Simulation,
  actor: Actor,
  token: string | undefined,
  recovery: boolean,
): Promise<void> {
  if (!token) return;
  const [session, presented] = generationOf(sim, token);
  const served = (body: unknown) => {
    const issued = nameTokens(sim, session, (body as { agentAuth: AgentAuth }).agentAuth);
    sim.write({ kind: "refreshed", session, presented, issued, recovery });
  };
  const name = `${actor.name} ${recovery ? "recovers" : "refreshes"} with generation ${presented}`;
  const client = registry(sim, { name, area: "refresh", credentials: [session], served });
  const isNewest = token === actor.refreshTokens.at(-1);
  try {
    const { accessToken, refreshToken } = await client.refresh(identityOf(actor), token, recovery);
    actor.accessToken = accessToken;
    actor.refreshTokens.push(refreshToken);
    actor.isUnsure = false;
  } catch (error) {
    if (error instanceof UnreachableError) actor.isUnsure ||= isNewest;
    else if (!(error instanceof ApiError)) throw error;
    else if (isNewest) actor.isUnsure = false;
  }
}

export async function revokeSession(sim: Simulation): Promise<void> {
  const actor = sim.choose(sim.cast.actors);
  if (!actor) return;
  const [credential] = generationOf(sim, actor.refreshTokens.at(-1) ?? "");
  const served = () => sim.write({ kind: "revoked", credential });
  await tried(
    registry(sim, { name: `revoke ${credential}`, served }).revokeAgentAuth(actor.owner.apiKey, actor.agent.id),
  );
}

export async function reissue(sim: Simulation): Promise<void> {
  const actor = sim.choose(sim.cast.actors);
  if (!actor) return;
  const { name, owner, agent } = actor;
  const served = (body: unknown) => {
    const { agent, ait, agentAuth } = body as ReissueAnswer;
    const now = Number(sim.next(`${name} reissue `).split(" ").at(-1));
    sim.write({ kind: "revoked", credential: `${name} ait ${now}` });
    for (const text of [ait, agent.currentJti]) sim.name(text, `${name} ait ${now + 1}`);
    if (agentAuth) nameTokens(sim, sim.next(`${name} renewed session `), agentAuth);
  };
  const answer = await tried(registry(sim, { name: `reissue ${name}`, served }).reissueAgent(owner.apiKey, agent.id));
  if (!answer) return;
  actor.ait = answer.ait;
  if (!answer.agentAuth) return;
  actor.accessToken = answer.agentAuth.accessToken;
  actor.refreshTokens.push(answer.agentAuth.refreshToken);
}

export async function deleteAgent(sim: Simulation): Promise<void> {
  const actor = sim.choose(sim.cast.actors);
  if (!actor) return;
  const { name, owner, agent } = actor;
  const served = () => {
    sim.write({ kind: "revoked", credential: sim.nameOf(actor.ait) });
    sim.write({ kind: "revoked", credential: generationOf(sim, actor.refreshTokens.at(-1) ?? "")[0] });
  };
  await tried(registry(sim, { name: `delete ${name}`, served }).deleteAgent(owner.apiKey, agent.id));
}

export async function readList(sim: Simulation): Promise<void> {
  const served = (body: unknown) => {
    const { payloadJson } = parseJws((body as { crl: string }).crl, "CRL", 1_000_000);
    const { seq, revocations } = JSON.parse(payloadJson) as CrlClaims;
    sim.write({ kind: "listed", seq, aits: revocations.map(({ jti }) => sim.nameOf(jti)).sort() });
  };
  await tried(registry(sim, { name: "read the list", served }).crl());
}
