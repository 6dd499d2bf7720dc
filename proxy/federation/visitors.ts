/**
 * Checks the agents of other registries that make requests here (D-280), by the keys of their registries and the visit
 * tokens that they bring. Before a signature is checked or another server is asked, the agent must have a pair here, or
 * bring a ticket that waits here, because a stranger could otherwise make this server check signatures and call others.
 */
import { BoundedMap } from "../../shared/bounded_map.ts";
import { type AitClaims, parseAit, readAitClaims } from "../../shared/protocol/signed/ait.ts";
import { TokenError } from "../../shared/protocol/signed/jws.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import { isForeignOrigin } from "../../shared/protocol/origins.ts";
import { parseShortToken, verifyShortToken, VIS } from "../../shared/protocol/signed/short_token.ts";
import { parseTicket } from "../../shared/protocol/ticket.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { digest } from "../../shared/server/crypto.ts";
import { parseJson } from "../../shared/server/http/body.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { RequestContext } from "../../shared/server/http/route.ts";
import type { VerifiedAit } from "../admission/ait_cache.ts";
import type { IssuerDocuments, VisitorChecks } from "../admission/checks.ts";
import { arePaired, findTicket, firstPair } from "../trust/store.ts";
import { signedHeaders } from "../../shared/server/http/signed_request.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { PairRecord } from "../schema/records.ts";
import type { Environment } from "../../shared/protocol/api/meta.ts";
import type { IssuerPolicy } from "../issuer_policy.ts";

interface VisitorsDeps extends Pick<ServiceDeps, "kv" | "clock"> {
  policy: IssuerPolicy;
  issuers: { of(issuer: string, host: string): IssuerDocuments };
  config: { registryUrl: string; environment: Environment };
}

/** Issuers for one ticket. With more, the holder of a ticket could make this server call more strangers. */
const ISSUERS_PER_TICKET = 3;
const TICKETS_KEPT = 10_000;
const VISITS_KEPT = 20_000;
const RECIPIENTS_KEPT = 20_000;

interface KeptVisit {
  /** Origin of the agent's home proxy. */
  proxy: string;
  agentDid: string;
  aitJti: string;
  audience: string;
  /** Unix seconds. */
  exp: number;
}

/** Every refusal here looks like a bad signature, because another one would tell a stranger which agents are paired. */
const refused = () => new TokenError("signature", "The signature does not verify");

/**
 * Returns whose budgets a sender uses. An agent of this server's registry uses those of its owner. All agents of
 * another registry share one budget, because that registry could otherwise invent an owner for each agent and get a new
 * budget with each.
 */
export function payerOf({ issuer, ownerDid }: { issuer: string; ownerDid: string }, home: string): string {
  return issuer === home ? ownerDid : issuer;
}

export class Visitors implements VisitorChecks {
  /** Issuers that were asked about a ticket, by its digest. */
  readonly #asked = new BoundedMap<string, Set<string>>(TICKETS_KEPT);
  readonly #visits = new BoundedMap<string, KeptVisit>(VISITS_KEPT);
  /** The agent here to which each visitor has written last. */
  readonly #recipients = new BoundedMap<string, string>(RECIPIENTS_KEPT);

  constructor(private readonly deps: VisitorsDeps) {}

  /**
   * Returns the claims of a token that names another registry, not verified. Returns `null` for a token of this
   * server's registry, and for a text that is no token, which the usual check refuses.
   */
  claimsOf(token: string): AitClaims | null {
    const { registryUrl } = this.deps.config;
    try {
      const claims = readAitClaims(parseAit(token));
      return claims.iss === registryUrl ? null : claims;
    } catch (error) {
      if (error instanceof TokenError) return null;
      throw error;
    }
  }

  /**
   * Returns the caches of the registry of a visiting agent, which check its token, and its host.
   *
   * @throws {TokenError} `signature` when the policy refuses the registry, or the agent has no pair and no ticket here
   * @throws {StoreUnavailable}
   */
  async admit({ iss, sub }: AitClaims, exchange: RequestContext): Promise<{ issuer: IssuerDocuments; host: string }> {
    const { policy, issuers } = this.deps;
    if (policy.accepts(iss) === null) throw refused();
    const ofTicket = exchange.target === "/pair/confirm" ? await this.#hostOfTicket(exchange, iss, sub) : null;
    const host = ofTicket ?? await this.#hostOf(sub, signedHeaders(exchange).recipient);
    if (host === undefined) throw refused();
    return { issuer: issuers.of(iss, host), host };
  }

  /** Called when a visitor whose request was verified writes to a peer here. */
  writes(agentDid: string, recipient: string): void {
    this.#recipients.set(agentDid, recipient);
  }

  /**
   * Returns the owner here whose visitors' budget an agent uses, or `undefined` for one without a pair. For a request
   * without a recipient it is the one to whom the agent has written last, because any person here can accept the agent,
   * and could otherwise make it use a budget that they have used up. Only a pair counts, because the agent could
   * otherwise use the budget of a person who has ended theirs.
   */
  async #hostOf(agentDid: string, recipient: string): Promise<string | undefined> {
    const { kv } = this.deps;
    for (const peer of [recipient, this.#recipients.get(agentDid) ?? ""]) {
      const pair = isAgentDid(peer) ? (await kv.get<PairRecord>(KEYS.pair(agentDid, peer))).value : null;
      if (pair) return pair.peerOwnerDid;
    }
    return (await firstPair(kv, agentDid))?.peerOwnerDid;
  }

  /**
   * Returns the home proxy of the agent that brings a visit token, or `null` when the token is not valid here.
   *
   * @throws {ServiceError} `PROXY_AUTH_DEPENDENCY_UNAVAILABLE` when the issuer has no usable keys
   */
  async visit(
    visitor: IssuerDocuments,
    token: string,
    { claims }: VerifiedAit,
    origin: string,
  ): Promise<string | null> {
    const { clock, config } = this.deps, now = unixSeconds(clock.now()), name = digest(token);
    const kept = this.#visits.get(name) ?? await this.#verify(visitor, token, origin, now);
    if (kept === null) return null;
    this.#visits.set(name, kept);
    const isValid = now < kept.exp && kept.audience === origin && kept.agentDid === claims.sub &&
      kept.aitJti === claims.jti && isForeignOrigin(kept.proxy, config.environment);
    return isValid ? kept.proxy : null;
  }

  /**
   * Returns true when a queued message of a visiting agent may be handed over, by the policy and the newest list that
   * was seen. The agent's registry is asked only for a first list, because a slow one would hold up the mailbox.
   */
  async mayStillSend(
    { issuer, agentDid, aitJti }: { issuer: string; agentDid: string; aitJti: string },
    recipientOwnerDid: string,
  ): Promise<boolean> {
    const { policy, issuers } = this.deps;
    return policy.accepts(issuer) !== null &&
      !(await issuers.of(issuer, recipientOwnerDid).crl.wasRevoked(agentDid, aitJti));
  }

  async #verify(visitor: IssuerDocuments, token: string, audience: string, now: number): Promise<KeptVisit | null> {
    const { issuer } = visitor;
    try {
      const jws = parseShortToken(VIS, token);
      const authority = { issuer, audience, keys: await visitor.keys.withKey(jws.kid) };
      const { sub, aitJti, proxy, exp } = await verifyShortToken(VIS, jws, authority, now);
      return { agentDid: sub, aitJti, audience, proxy, exp };
    } catch (error) {
      if (error instanceof TokenError) return null;
      throw error;
    }
  }

  /** Returns who made a ticket that the agent may confirm, or is paired by still, and that few other issuers brought. */
  async #hostOfTicket(exchange: RequestContext, issuer: string, agentDid: string): Promise<string | null> {
    const { kv, clock } = this.deps;
    const body = parseJson(exchange.body)?.value as { ticket?: unknown } | null | undefined;
    const ticket = typeof body?.ticket === "string" ? parseTicket(body.ticket) : null;
    if (!ticket) return null;
    const { value } = await findTicket(kv, ticket.plain);
    if (!value) return null;
    const { confirmed, expiresAt, allowResponderAgentDid = null, initiatorAgentDid, initiatorOwnerDid } = value;
    // After the end of the pair the ticket would otherwise let the agent use its maker's budget for another day.
    if (confirmed) return await arePaired(kv, agentDid, initiatorAgentDid) ? initiatorOwnerDid : null;
    if (clock.now() >= expiresAt || ![null, agentDid].includes(allowResponderAgentDid)) return null;
    const name = digest(ticket.plain), asked = this.#asked.get(name) ?? new Set();
    if (!asked.has(issuer) && asked.size >= ISSUERS_PER_TICKET) return null;
    this.#asked.set(name, asked.add(issuer));
    return initiatorOwnerDid;
  }
}
