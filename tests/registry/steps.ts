/**
 * One call of each kind that the registry writes, for tests in which the store fails, and the set-up that these tests
 * share.
 */
import type { Challenge } from "../../shared/protocol/api/agents.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { keyPairFromSeed, sign } from "../../shared/protocol/ed25519.ts";
import { registrationMessage } from "../../shared/protocol/registration.ts";
import type { KvCall } from "../support/faulty_kv.ts";
import { answered, refresh } from "../support/registry_world.ts";
import { BOOTSTRAP_SECRET, type Person, type TestAgent, type World } from "../support/world.ts";

/** One call of each kind that writes, with the records that it needs, each in its own world. */
export type Step = [
  name: string,
  record: string,
  wanted: string,
  prepare: (w: World) => Promise<() => Promise<Response>>,
];

/** Sends a request of an agent's owner about the agent: `what` is `""` or the end of the path. */
export const owned = (
  w: World,
  method: string,
  { agent, owner }: Pick<TestAgent, "agent" | "owner">,
  what = "",
) => w.ask(method, `/v1/agents/${agent.id}${what}`, { apiKey: owner.apiKey });

/** A registration that is ready to send. */
export async function registration(w: World, { apiKey }: Pick<Person, "apiKey">): Promise<() => Promise<Response>> {
  const { publicKey, privateKey } = await keyPairFromSeed(w.random.bytes(32));
  const challenge = await answered<Challenge>(await post(w, "/v1/agents/challenge", apiKey, { publicKey }), 201);
  const { challengeId } = challenge;
  const message = utf8Bytes(registrationMessage({ ...challenge, publicKey, name: "alpha" }));
  const body = { name: "alpha", publicKey, challengeId, challengeSignature: await sign(privateKey, message) };
  return () => post(w, "/v1/agents", apiKey, body);
}

const post = (w: World, path: string, apiKey?: string, body?: unknown) => w.ask("POST", path, { apiKey, body });
const onAgent = (method: string, what: string) => async (w: World) => {
  const a = await w.agent();
  return () => owned(w, method, a, what);
};
const onService = (method: string, what: string) => async (w: World) => {
  const { apiKey } = await w.admin();
  const { internalServices: [service] } = await answered<{ internalServices: { id: string }[] }>(
    await w.ask("GET", "/v1/admin/internal-services", { apiKey }),
  );
  return () => w.ask(method, `/v1/admin/internal-services/${service?.id}${what}`, { apiKey });
};
const invited = async (w: World) => (await w.client.createInvite((await w.admin()).apiKey)).invite;

export const STEPS: Step[] = [
  [
    "bootstrap",
    "bootstrap",
    "201",
    (w) =>
      Promise.resolve(() =>
        w.ask("POST", "/v1/admin/bootstrap", { headers: { "x-bootstrap-secret": BOOTSTRAP_SECRET } })
      ),
  ],
  ["invite", "invite", "201", async (w) => {
    const { apiKey } = await w.admin();
    return () => post(w, "/v1/invites", apiKey);
  }],
  ["redemption", "invite", "201", async (w) => {
    const { code } = await invited(w);
    return () => post(w, "/v1/invites/redeem", undefined, { code });
  }],
  ["deletion of an invite", "invite", "204", async (w) => {
    const [{ apiKey }, { id }] = [await w.admin(), await invited(w)];
    return () => w.ask("DELETE", `/v1/invites/${id}`, { apiKey });
  }],
  ["API key", "api_key_of", "201", async (w) => {
    const { apiKey } = await w.person();
    return () => post(w, "/v1/me/api-keys", apiKey);
  }],
  ["revocation of a key", "audit", "204", async (w) => {
    const { apiKey } = await w.person();
    const { apiKey: { id } } = await answered<{ apiKey: { id: string } }>(
      await post(w, "/v1/me/api-keys", apiKey),
      201,
    );
    return () => w.ask("DELETE", `/v1/me/api-keys/${id}`, { apiKey });
  }],
  ["registration", "agent", "201", async (w) => await registration(w, await w.person())],
  ["refresh", "session", "200", async (w) => {
    const a = await w.agent();
    return () => refresh(w, a, a.agentAuth.refreshToken);
  }],
  ["reissue", "revocation", "200", onAgent("POST", "/reissue")],
  ["revocation of a session", "session", "204", onAgent("DELETE", "/auth/revoke")],
  ["deletion of an agent", "revocation", "204", onAgent("DELETE", "")],
  ["internal service", "service", "201", async (w) => {
    const { apiKey } = await w.admin();
    return () => post(w, "/v1/admin/internal-services", apiKey, { name: "relay", scopes: ["crl.read"] });
  }],
  ["rotation of a service", "service", "200", onService("POST", "/rotate")],
  ["deletion of a service", "service", "204", onService("DELETE", "")],
  ["rotation of the keys", "signing_keys", "200", async (w) => {
    const { apiKey } = await w.admin();
    return () => post(w, "/v1/admin/keys/rotate", apiKey);
  }],
  ["use of a key", "api_key", "200", async (w) => {
    const { apiKey } = await w.person();
    return () => w.ask("GET", "/v1/me", { apiKey });
  }],
  [
    "count of a limit",
    "window",
    "404 AGENT_NOT_FOUND",
    (w) => Promise.resolve(() => w.ask("GET", `/v1/resolve/${w.newId()}`)),
  ],
];

/** True for a call that concerns records of this kind. */
export const touches = (record: string) => ({ keys }: KvCall) => keys.some((key) => key[1] === record);
