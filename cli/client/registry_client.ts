/** Calls of the registry. To register takes two requests; lists are read page by page. */
import type { Context } from "../context.ts";
import type * as z from "zod";
import * as accounts from "../../shared/protocol/api/accounts.ts";
import * as agents from "../../shared/protocol/api/agents.ts";
import * as invites from "../../shared/protocol/api/invites.ts";
import * as meta from "../../shared/protocol/api/meta.ts";
import * as services from "../../shared/protocol/api/services.ts";
import type * as sessions from "../../shared/protocol/api/sessions.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { type KeyPair, sign } from "../../shared/protocol/ed25519.ts";
import { KeyDocument } from "../../shared/protocol/signed/key_document.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { registrationMessage } from "../../shared/protocol/registration.ts";
import { type Answer, callService, type HttpDeps } from "../link/service_call.ts";
import { postRefresh, postVisit } from "../link/session_refresh.ts";
import type { AgentIdentity } from "../link/signed_headers.ts";

/** Properties of a new agent. The registry chooses `framework` and `ttlDays` when they are absent. */
export interface WantedAgent {
  name: string;
  framework?: string | undefined;
  ttlDays?: number | undefined;
}

/** Query of a page of agents. */
export interface AgentQuery {
  status?: string | undefined;
  framework?: string | undefined;
  limit?: string | undefined;
  cursor?: string | undefined;
}

export class RegistryClient {
  constructor(
    readonly deps: HttpDeps & Partial<Pick<Context, "onVersion">>,
    readonly registryUrl: string,
  ) {}

  // Without credentials

  async metadata(): Promise<meta.Metadata> {
    const metadata = await this.#call("GET", "/v1/metadata", null, meta.Metadata);
    this.deps.onVersion?.({ version: metadata.version, registryUrl: this.registryUrl });
    return metadata;
  }

  keyDocument(): Promise<KeyDocument> {
    return this.#call("GET", "/.well-known/svc-keys.json", null, KeyDocument);
  }

  /** The CRL, not verified. */
  async crl(): Promise<string> {
    return (await this.#call("GET", "/v1/crl", null, meta.CrlAnswer)).crl;
  }

  resolve(agentId: string): Promise<agents.ResolvedAgent> {
    return this.#call("GET", `/v1/resolve/${encodeURIComponent(agentId)}`, null, agents.ResolvedAgent);
  }

  redeemInvite(code: string, displayName?: string): Promise<invites.RedeemInviteAnswer> {
    return this.#call("POST", "/v1/invites/redeem", null, invites.RedeemInviteAnswer, { code, displayName });
  }

  /** Creates the first admin. */
  bootstrap(secret: string, displayName?: string): Promise<accounts.BootstrapAnswer> {
    return callService(this.deps, {
      method: "POST",
      url: `${this.registryUrl}/v1/admin/bootstrap`,
      headers: { "x-bootstrap-secret": secret },
      body: JSON.stringify({ displayName }),
      response: accounts.BootstrapAnswer,
    });
  }

  // With an API key

  me(apiKey: string): Promise<accounts.AccountProfile> {
    return this.#call("GET", "/v1/me", apiKey, accounts.AccountProfile);
  }

  createApiKey(apiKey: string, name?: string): Promise<accounts.CreateApiKeyAnswer> {
    return this.#call("POST", "/v1/me/api-keys", apiKey, accounts.CreateApiKeyAnswer, { name });
  }

  /** All API keys of the caller, from every page. */
  async apiKeys(apiKey: string): Promise<Pick<accounts.ApiKeyList, "apiKeys">> {
    const pages = await allPages((query) => this.#call("GET", `/v1/me/api-keys${query}`, apiKey, accounts.ApiKeyList));
    return { apiKeys: pages.flatMap((page) => page.apiKeys) };
  }

  revokeApiKey(apiKey: string, keyId: string): Promise<null> {
    return this.#call("DELETE", `/v1/me/api-keys/${encodeURIComponent(keyId)}`, apiKey, null);
  }

  /** Registers an agent by challenge and proof. The private key is not sent. */
  async registerAgent(apiKey: string, keys: KeyPair, wanted: WantedAgent): Promise<agents.RegisterAnswer> {
    return await this.answerChallenge(apiKey, keys, wanted, await this.challenge(apiKey, keys.publicKey));
  }

  /** A challenge for registering a key. It can be answered once. */
  challenge(apiKey: string, publicKey: string): Promise<agents.Challenge> {
    return this.#call("POST", "/v1/agents/challenge", apiKey, agents.Challenge, { publicKey });
  }

  /** Registers an agent by the answer to a challenge. */
  async answerChallenge(
    apiKey: string,
    keys: KeyPair,
    wanted: WantedAgent,
    { challengeId, nonce, ownerDid }: Pick<agents.Challenge, "challengeId" | "nonce" | "ownerDid">,
  ): Promise<agents.RegisterAnswer> {
    const { publicKey } = keys;
    const message = registrationMessage({ challengeId, nonce, ownerDid, publicKey, ...wanted });
    const challengeSignature = await sign(keys.privateKey, utf8Bytes(message));
    const body = { ...wanted, publicKey, challengeId, challengeSignature };
    return await this.#call("POST", "/v1/agents", apiKey, agents.RegisterAnswer, body);
  }

  agents(apiKey: string, query: AgentQuery = {}): Promise<agents.AgentList> {
    const given = Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [[name, value]]);
    const search = given.length > 0 ? `?${new URLSearchParams(given)}` : "";
    return this.#call("GET", `/v1/agents${search}`, apiKey, agents.AgentList);
  }

  async agent(apiKey: string, agentId: string): Promise<agents.Agent> {
    return (await this.#call("GET", agentPath(agentId), apiKey, agents.AgentAnswer)).agent;
  }

  /** Issues a new identity token. The previous one is revoked. */
  reissueAgent(apiKey: string, agentId: string): Promise<agents.ReissueAnswer> {
    return this.#call("POST", `${agentPath(agentId)}/reissue`, apiKey, agents.ReissueAnswer);
  }

  /** Ends an agent's session. The agent stays active. */
  revokeAgentAuth(apiKey: string, agentId: string): Promise<null> {
    return this.#call("DELETE", `${agentPath(agentId)}/auth/revoke`, apiKey, null);
  }

  /** Revokes an agent permanently. */
  deleteAgent(apiKey: string, agentId: string): Promise<null> {
    return this.#call("DELETE", agentPath(agentId), apiKey, null);
  }

  // With an admin's API key

  createInvite(apiKey: string, expiresAt: string | null = null): Promise<invites.CreateInviteAnswer> {
    return this.#call("POST", "/v1/invites", apiKey, invites.CreateInviteAnswer, { expiresAt });
  }

  /** All invites, without their codes, from every page. */
  async invites(apiKey: string): Promise<Pick<invites.InviteList, "invites">> {
    const pages = await allPages((query) => this.#call("GET", `/v1/invites${query}`, apiKey, invites.InviteList));
    return { invites: pages.flatMap((page) => page.invites) };
  }

  /** Deletes an invite; its code no longer works. */
  deleteInvite(apiKey: string, inviteId: string): Promise<null> {
    return this.#call("DELETE", `/v1/invites/${encodeURIComponent(inviteId)}`, apiKey, null);
  }

  createService(apiKey: string, name: string, scopes: readonly string[]): Promise<services.IssuedServiceAnswer> {
    return this.#call("POST", SERVICES, apiKey, services.IssuedServiceAnswer, { name, scopes });
  }

  async services(apiKey: string): Promise<Pick<services.ServiceList, "internalServices">> {
    const pages = await allPages((query) => this.#call("GET", `${SERVICES}${query}`, apiKey, services.ServiceList));
    return { internalServices: pages.flatMap((page) => page.internalServices) };
  }

  rotateService(apiKey: string, serviceId: string): Promise<services.IssuedServiceAnswer> {
    const path = `${SERVICES}/${encodeURIComponent(serviceId)}/rotate`;
    return this.#call("POST", path, apiKey, services.IssuedServiceAnswer);
  }

  revokeService(apiKey: string, serviceId: string): Promise<null> {
    return this.#call("DELETE", `${SERVICES}/${encodeURIComponent(serviceId)}`, apiKey, null);
  }

  rotateKeys(apiKey: string): Promise<z.output<typeof meta.RotateKeysAnswer>> {
    return this.#call("POST", "/v1/admin/keys/rotate", apiKey, meta.RotateKeysAnswer);
  }

  // With an agent's credentials

  /**
   * Returns new tokens for an agent's session.
   *
   * @param recovery true after a response that was lost
   * @param origin the registry's public origin, when `registryUrl` is another address
   */
  refresh(
    agent: Pick<AgentIdentity, "ait" | "privateKey">,
    refreshToken: string,
    recovery = false,
    origin: string = this.registryUrl,
  ): Promise<sessions.AgentAuth> {
    return postRefresh(this.deps, this.registryUrl, agent, refreshToken, recovery, origin);
  }

  /** Returns a token with which an agent visits the proxy at `audience`. `origin` as for a refresh. */
  visit(agent: AgentIdentity, audience: string, origin: string = this.registryUrl): Promise<sessions.VisitAnswer> {
    return postVisit(this.deps, this.registryUrl, agent, audience, origin);
  }

  /** Checks an access token. @throws {import("../errors.ts").ApiError} 401 when it has expired or belongs to another session */
  async validate(agentDid: string, aitJti: string, accessToken: string): Promise<void> {
    await callService(this.deps, {
      method: "POST",
      url: `${this.registryUrl}/v1/agents/auth/validate`,
      headers: { [HEADERS.access]: accessToken },
      body: JSON.stringify({ agentDid, aitJti }),
      response: null,
    });
  }

  #call<S extends z.ZodType | null>(
    method: "GET" | "POST" | "DELETE",
    path: string,
    apiKey: string | null,
    response: S,
    body?: unknown,
  ): Promise<Answer<S>> {
    return callService(this.deps, {
      method,
      url: this.registryUrl + path,
      headers: apiKey === null ? {} : { [HEADERS.authorization]: `Bearer ${apiKey}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      response,
    });
  }
}

/** Reads all pages of a list, until there is no cursor or a cursor repeats. */
async function allPages<P extends { pagination: { nextCursor: string | null } }>(
  read: (query: string) => Promise<P>,
): Promise<P[]> {
  const pages: P[] = [];
  const cursors = new Set<string>();
  for (let query = "";;) {
    const page = await read(query);
    pages.push(page);
    const { nextCursor } = page.pagination;
    if (nextCursor === null || cursors.has(nextCursor)) return pages;
    cursors.add(nextCursor);
    query = `?cursor=${encodeURIComponent(nextCursor)}`;
  }
}

const SERVICES = "/v1/admin/internal-services";

function agentPath(agentId: string): string {
  return `/v1/agents/${encodeURIComponent(agentId)}`;
}
