/** Calls the routes of the registry. Registering an agent takes two calls; a list is read page by page. */
import type { Context } from "../context.ts";
import type * as z from "zod";
import { type Query, searchOf } from "../../shared/client/http.ts";
import * as accounts from "../../shared/protocol/api/accounts.ts";
import * as agents from "../../shared/protocol/api/agents.ts";
import * as invites from "../../shared/protocol/api/invites.ts";
import * as meta from "../../shared/protocol/api/meta.ts";
import * as services from "../../shared/protocol/api/services.ts";
import * as sessions from "../../shared/protocol/api/sessions.ts";
import { ApiError } from "../../shared/client/errors.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { type KeyPair, sign } from "../../shared/protocol/ed25519.ts";
import { KeyDocument } from "../../shared/protocol/signed/key_document.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { registrationMessage } from "../../shared/protocol/registration.ts";
import { callService, type HttpDeps } from "../link/service_call.ts";
import { type AgentIdentity, signedHeaders } from "../link/signed_headers.ts";

/** Properties of a new agent. The registry chooses `framework` and `ttlDays` when they are absent. */
export interface WantedAgent {
  name: string;
  framework?: string | undefined;
  ttlDays?: number | undefined;
}

/**
 * State of an agent at a registry. `unknown` means that the registry has no such agent, for example after it was
 * restored from an older backup.
 */
export type AgentState = "active" | "revoked" | "unknown";

export class RegistryClient {
  constructor(
    readonly deps: HttpDeps & Partial<Pick<Context, "onVersion">>,
    readonly registryUrl: string,
  ) {}

  // Routes that need no credentials

  async metadata(): Promise<meta.Metadata> {
    const metadata = await this.#call("GET", "/v1/metadata", null, meta.Metadata);
    this.deps.onVersion?.({ version: metadata.version, registryUrl: this.registryUrl });
    return metadata;
  }

  readonly keyDocument = () => this.#call("GET", "/.well-known/svc-keys.json", null, KeyDocument);
  /** Returns the CRL as the registry sent it; its signature is not verified here. */
  readonly crl = async () => (await this.#call("GET", "/v1/crl", null, meta.CrlAnswer)).crl;
  /** The state of an agent that is named by its ID or DID. */
  readonly stateOf = async (agent: string): Promise<AgentState> => {
    const id = parseDid(agent)?.id ?? agent;
    try {
      return (await this.#call("GET", `/v1/resolve/${encodeURIComponent(id)}`, null, agents.ResolvedAgent)).status;
    } catch (error) {
      if (error instanceof ApiError && error.code === "AGENT_NOT_FOUND") return "unknown";
      throw error;
    }
  };
  readonly redeemInvite = (code: string, displayName?: string, retrySecret?: string) =>
    this.#call("POST", "/v1/invites/redeem", null, invites.RedeemInviteAnswer, { code, displayName, retrySecret });
  /** Creates the first admin. */
  readonly bootstrap = (secret: string, displayName?: string) => {
    const headers = { "x-bootstrap-secret": secret };
    return this.#call("POST", "/v1/admin/bootstrap", null, accounts.BootstrapAnswer, { displayName }, headers);
  };

  // Routes that need a person's API key

  readonly me = (apiKey: string) => this.#call("GET", "/v1/me", apiKey, accounts.AccountProfile);
  readonly createApiKey = (apiKey: string, name?: string) =>
    this.#call("POST", "/v1/me/api-keys", apiKey, accounts.CreateApiKeyAnswer, { name });
  readonly apiKeys = (apiKey: string) =>
    this.#all("/v1/me/api-keys", apiKey, accounts.ApiKeyList, (page) => page.apiKeys);
  readonly revokeApiKey = (apiKey: string, keyId: string) =>
    this.#call("DELETE", `/v1/me/api-keys/${encodeURIComponent(keyId)}`, apiKey, null);

  /** A challenge for registering a key. It can be answered once. */
  readonly challenge = (apiKey: string, publicKey: string) =>
    this.#call("POST", "/v1/agents/challenge", apiKey, agents.Challenge, { publicKey });

  /** Registers an agent by answering a challenge. The answer is a signature, so the private key is not sent. */
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

  readonly agents = (apiKey: string, query: Query = {}) =>
    this.#call("GET", `/v1/agents${searchOf(query)}`, apiKey, agents.AgentList);
  /** All agents of the person, from every page. */
  readonly ownAgents = (apiKey: string) => this.#all("/v1/agents", apiKey, agents.AgentList, (page) => page.agents);
  readonly agent = async (apiKey: string, agentId: string) =>
    (await this.#call("GET", agentPath(agentId), apiKey, agents.AgentAnswer)).agent;
  /** Issues a new identity token. The previous one is revoked. */
  readonly reissueAgent = (apiKey: string, agentId: string) =>
    this.#call("POST", `${agentPath(agentId)}/reissue`, apiKey, agents.ReissueAnswer);
  readonly revokeAgentAuth = (apiKey: string, agentId: string) =>
    this.#call("DELETE", `${agentPath(agentId)}/auth/revoke`, apiKey, null);
  readonly deleteAgent = (apiKey: string, agentId: string) => this.#call("DELETE", agentPath(agentId), apiKey, null);

  // Routes that need an admin's API key

  readonly createInvite = (apiKey: string, expiresAt: string | null = null) =>
    this.#call("POST", "/v1/invites", apiKey, invites.CreateInviteAnswer, { expiresAt });
  /** All invites, without their codes, from every page. */
  readonly invites = (apiKey: string) => this.#all("/v1/invites", apiKey, invites.InviteList, (page) => page.invites);
  readonly deleteInvite = (apiKey: string, inviteId: string) =>
    this.#call("DELETE", `/v1/invites/${encodeURIComponent(inviteId)}`, apiKey, null);

  readonly createService = (apiKey: string, name: string, scopes: readonly string[]) =>
    this.#call("POST", SERVICES, apiKey, services.IssuedServiceAnswer, { name, scopes });
  readonly services = (apiKey: string) =>
    this.#all(SERVICES, apiKey, services.ServiceList, (page) => page.internalServices);
  readonly rotateService = (apiKey: string, serviceId: string) =>
    this.#call("POST", `${SERVICES}/${encodeURIComponent(serviceId)}/rotate`, apiKey, services.IssuedServiceAnswer);
  readonly revokeService = (apiKey: string, serviceId: string) =>
    this.#call("DELETE", `${SERVICES}/${encodeURIComponent(serviceId)}`, apiKey, null);
  readonly rotateKeys = (apiKey: string) => this.#call("POST", "/v1/admin/keys/rotate", apiKey, meta.RotateKeysAnswer);

  // Routes that need an agent's credentials

  /**
   * Refreshes the tokens of a session.
   *
   * @param recovery true after a response that was lost
   * @param origin the registry's public origin, for which the request is signed even if `registryUrl` is another
   *   address (D-24)
   */
  async refresh(
    agent: Pick<AgentIdentity, "ait" | "privateKey">,
    refreshToken: string,
    recovery = false,
    origin = this.registryUrl,
  ): Promise<sessions.AgentAuth> {
    const target = "/v1/agents/auth/refresh", body = { refreshToken, ...recovery ? { recovery } : {} };
    const headers = await this.#signed(agent, origin, target, body);
    return (await this.#call("POST", target, null, sessions.RefreshAnswer, body, headers)).agentAuth;
  }

  /** Returns a token with which an agent visits the proxy at `audience`. `origin` as for a refresh. */
  async visit(agent: AgentIdentity, audience: string, origin: string): Promise<sessions.VisitAnswer> {
    const target = "/v1/agents/auth/visit", body = { audience };
    const signed = await this.#signed(agent, origin, target, body);
    const headers = { ...signed, [HEADERS.access]: agent.accessToken };
    return await this.#call("POST", target, null, sessions.VisitAnswer, body, headers);
  }

  #signed(agent: Pick<AgentIdentity, "ait" | "privateKey">, url: string, target: string, body: object) {
    return signedHeaders(this.deps, agent, { method: "POST", url, target, body: JSON.stringify(body) });
  }

  /** Checks an access token. @throws {ApiError} 401 when it has expired or belongs to another session */
  async validate(agentDid: string, aitJti: string, accessToken: string): Promise<void> {
    const headers = { [HEADERS.access]: accessToken };
    await this.#call("POST", "/v1/agents/auth/validate", null, null, { agentDid, aitJti }, headers);
  }

  async #all<S extends z.ZodType<{ pagination: { nextCursor: string | null } }>, R>(
    path: string,
    apiKey: string,
    response: S,
    rowsOf: (page: z.output<S>) => readonly R[],
  ): Promise<R[]> {
    const read = (cursor?: string) =>
      this.#call("GET", path + searchOf({ cursor }), apiKey, response) as Promise<z.output<S>>;
    return (await Array.fromAsync(pagesOf(read, undefined, PAGES_MAX))).flatMap(rowsOf);
  }

  #call<S extends z.ZodType | null>(
    method: "GET" | "POST" | "DELETE",
    path: string,
    token: string | null,
    response: S,
    body?: object,
    headers: Record<string, string> = {},
  ) {
    const url = this.registryUrl + path;
    return callService(this.deps, { method, url, token, headers, body: JSON.stringify(body), response });
  }
}

/** Most pages of a list. Without a bound, a registry that always has another page would hold a command permanently. */
export const PAGES_MAX = 100;

/** Reads at most `most` pages of a list one by one, until there is no cursor or a cursor repeats. */
export async function* pagesOf<P extends { pagination: { nextCursor: string | null } }>(
  read: (cursor: string | undefined) => Promise<P>,
  cursor?: string,
  most = Infinity,
): AsyncGenerator<P, void> {
  const seen = new Set<string>();
  let pages = 0;
  do {
    if (cursor !== undefined) seen.add(cursor);
    const page = await read(cursor);
    yield page;
    cursor = page.pagination.nextCursor ?? undefined;
  } while (cursor !== undefined && !seen.has(cursor) && ++pages < most);
}

const SERVICES = "/v1/admin/internal-services";

function agentPath(agentId: string): string {
  return `/v1/agents/${encodeURIComponent(agentId)}`;
}
