/**
 * Pairs this agent with others by tickets: proves its key to a peer, and pins the peer's key (D-146). The pair secret
 * travels in the ticket only, from person to person, so neither proxy nor registry chooses the key.
 *
 * A ticket is confirmed at the proxy of the agent that made it. A ticket of another server is also confirmed at this
 * agent's own proxy, so that the two agents may write to each other (D-280). All steps are repeated until they are
 * done: after a lost answer, after a kill, and while one of the two servers is away.
 */
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import type { HttpResponse } from "../../shared/client/http.ts";
import { describeError } from "../../shared/client/refusals.ts";
import { PairConfirmAnswer, PairingProfile, type PairKey } from "../../shared/protocol/api/pairing.ts";
import { toBase64Url } from "../../shared/protocol/base64url.ts";
import { type PairSide, provePairKey, provesPairKey } from "../../shared/protocol/pair_key.ts";
import { parseAit, readAitClaims } from "../../shared/protocol/signed/ait.ts";
import { isTicketOf, parseTicket, type Ticket } from "../../shared/protocol/ticket.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { authorityIn, type Peer } from "../link/peer_pages.ts";
import { answerOf, isPairLeft, type ProxyCaller, ProxyRefusal } from "../link/proxy_caller.ts";
import { LocalError } from "../local_errors.ts";
import type { Parts } from "./parts.ts";
import { type PinnedPeer, pinTicket, removePeer } from "./peers/peers.ts";
import type { PairConfirmation } from "./store/pairing_rows.ts";

const SECRET_BYTES = 16;
/**
 * Keys of a list that are tried with an open ticket. With more, a relay that lists 100,000 keys makes the connector
 * compute for minutes.
 */
const PROVING_MAX = 1_000;

interface PairingDeps extends Parts {
  /** The origin of the proxy that an authority names for its agents. @throws {UnreachableError} @throws {ApiError} */
  proxyNamedBy(authority: string): Promise<string | undefined>;
}

export class Pairing {
  /** The confirmations under way, and whether their tickets are of another server. */
  readonly #confirming = new Map<Promise<unknown>, boolean>();

  constructor(private readonly deps: PairingDeps) {}

  newSecret(): string {
    return toBase64Url(this.deps.random.bytes(SECRET_BYTES));
  }

  /** Whether a peer may still prove its key with a ticket of this agent. */
  get hasOpenTicket(): boolean {
    return this.deps.store.pairSecrets.open(this.deps.clock.now()).length > 0;
  }

  /** Whether this agent has made a ticket that no peer has used. */
  isOwn({ pairSecret }: Ticket): boolean {
    const { store, clock } = this.deps;
    return pairSecret !== null && store.pairSecrets.open(clock.now()).includes(pairSecret);
  }

  /** Proves the agent's key for a profile; `undefined` for a profile that the proxy refuses anyway. */
  async proof(role: PairSide["role"], secret: string, profile: unknown): Promise<PairKey | undefined> {
    const { data } = PairingProfile.safeParse(profile);
    if (data === undefined) return undefined;
    const { ait } = await this.deps.session.current();
    const { cnf } = readAitClaims(parseAit(ait));
    return await provePairKey(secret, { role, did: this.deps.did, profile: data }, cnf.jwk.x);
  }

  /**
   * Confirms a ticket. Until it ends, messages of agents without a proven key wait, because one of them may be the peer
   * of this ticket.
   *
   * @param members of the request: a profile, and what the caller adds
   * @returns the answer of the ticket's proxy
   * @throws {LocalError} `CONNECTOR_PEER_KEY_MISMATCH` when the agent of the ticket did not prove its key
   * @throws {ProxyRefusal} @throws {UnreachableError} when a server does not answer; the confirmation is tried again
   * for a day
   */
  confirm(ticket: Ticket, members: Record<string, unknown>): Promise<HttpResponse> {
    const work = this.#confirm(ticket, members);
    this.#confirming.set(work, this.#isElsewhere(ticket));
    return work.finally(() => this.#confirming.delete(work));
  }

  /** Resolves when all confirmations under way have ended whose ticket the agent `did` may have made. Never rejects. */
  async settled(did: string): Promise<void> {
    const isElsewhere = authorityIn(did) !== authorityIn(this.deps.did);
    // Another server that does not answer would otherwise hold up the messages of contacts at this agent's server.
    const its = [...this.#confirming].filter(([, ofOther]) => ofOther === isElsewhere);
    await Promise.allSettled(its.map(([work]) => work));
  }

  /**
   * Continues the confirmations that an earlier run, or a server that did not answer, left open: side by side, because
   * one server that does not answer would hold up the others. Never rejects.
   */
  async resume(): Promise<void> {
    const { clock, emit, store, isOver } = this.deps;
    // A confirmation in progress would otherwise run twice, and one person would get two results.
    if (this.#confirming.size > 0) return;
    try {
      const now = clock.now();
      await Promise.all(store.pairConfirmations.all().map((row) => this.#resume(row, now >= row.until)));
    } catch (error) {
      if (!isOver()) emit("store_failed", { why: describeError(error) });
    }
  }

  async #resume(row: PairConfirmation, isOver: boolean): Promise<void> {
    const { emit, peers, store: { pairConfirmations: rows } } = this.deps;
    const ticket = parseTicket(row.ticket);
    // Its pair would otherwise begin again after this agent has ended it.
    const isRemoved = peers.of(row.half ?? "")?.removed === true;
    try {
      if (ticket !== null && !isOver && !isRemoved) {
        await this.confirm(ticket, { responderProfile: row.profile });
        return;
      }
      if (ticket !== null && row.half !== null) await this.#endHalf(this.#proxyOf(ticket), row.half);
      rows.end(row.ticket);
    } catch (error) {
      // Without the event, a person who was told that the confirmation goes on would wait for a pair that never comes.
      const why = error instanceof LocalError ? "the agent of the ticket did not prove its key" : describeError(error);
      emit(isFinal(error) ? "pair_failed" : "pair_waits", { why });
      if (isOver) rows.end(row.ticket);
    }
  }

  async #confirm(ticket: Ticket, members: Record<string, unknown>): Promise<HttpResponse> {
    const { clock, store: { pairConfirmations: rows } } = this.deps;
    const { data: profile } = PairingProfile.safeParse(members.responderProfile);
    if (ticket.pairSecret !== null && profile !== undefined) rows.begin(ticket.ticket, profile, clock.now());
    const confirmed = await this.#runSteps(ticket, members).catch((error) => {
      if (isFinal(error)) rows.end(ticket.ticket);
      throw error;
    });
    rows.end(ticket.ticket);
    return confirmed;
  }

  async #runSteps(ticket: Ticket, members: Record<string, unknown>): Promise<HttpResponse> {
    const { peers, did: own, store, proxy: home, readPeers } = this.deps;
    const { pairSecret: secret, plain } = ticket, isElsewhere = this.#isElsewhere(ticket);
    // Without a secret nothing proves the key, because neither server can vouch for an agent of the other.
    if (isElsewhere && secret === null) throw new LocalError("CONNECTOR_PEER_KEY_MISMATCH");
    const proxy = this.#proxyOf(ticket);
    const responderKey = secret === null ? undefined : await this.proof("responder", secret, members.responderProfile);
    const response = await proxy.post("/pair/confirm", { ...members, ticket: plain, responderKey });
    if (secret === null) {
      await readPeers();
      return response;
    }
    const answer = answerOf(response, PairConfirmAnswer, proxy.place);
    const { initiatorAgentDid: did, initiatorProfile: profile, initiatorKey: key } = answer;
    const wasPeer = peers.of(did) !== null;
    const isOfTicket = (authorityIn(did) !== authorityIn(own)) === isElsewhere &&
      (!isElsewhere || await this.#isServedAt(did, ticket.origin));
    const isProven = isOfTicket && key !== undefined &&
      await provesPairKey(secret, { role: "initiator", did, profile }, key) &&
      await this.#pin({ did, ...profile, proxy: isElsewhere ? ticket.origin : undefined }, key);
    if (!isProven) {
      // An agent that was a peer before keeps its pair, because a relay could otherwise end a good pair with a false
      // answer.
      if (!wasPeer) await this.#endPair(proxy, did);
      throw new LocalError("CONNECTOR_PEER_KEY_MISMATCH");
    }
    if (isElsewhere) {
      store.pairConfirmations.halfDone(ticket.ticket, did);
      const peer = { peerAgentDid: did, peerProxy: ticket.origin, peerProfile: profile, peerKey: key };
      await home.post("/pair/accept", peer).catch(async (error) => {
        if (isFinal(error)) await this.#endHalf(proxy, did);
        throw error;
      });
    }
    await readPeers();
    return response;
  }

  /**
   * Tells whether the server of a ticket is that of an agent. Otherwise a server could give a ticket in the name of an
   * agent of a third one, and this agent's messages to that name would be sealed to a key of the wrong server.
   */
  async #isServedAt(did: string, origin: string): Promise<boolean> {
    const authority = authorityIn(did) ?? "";
    if (new URL(origin).hostname === authority) return true;
    try {
      return await this.deps.proxyNamedBy(authority) === origin;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // A busy server has not said which proxy it names. As a refusal, its answer would end a good pair.
      if (isPassing(error)) throw new UnreachableError(`${authority}: ${describeError(error)}`);
      return false;
    }
  }

  #isElsewhere(ticket: Ticket): boolean {
    return !isTicketOf(ticket, this.deps.proxy.place.origin);
  }

  #proxyOf(ticket: Ticket): ProxyCaller {
    return this.#isElsewhere(ticket) ? this.deps.proxies.at(ticket.origin) : this.deps.proxy;
  }

  /** Ends a pair that a relay may have made up, and takes no message of that agent without another ticket. */
  async #endPair(proxy: ProxyCaller, did: string): Promise<void> {
    const { peers, readPeers } = this.deps;
    await proxy.call({ method: "POST", target: "/pair/remove", body: JSON.stringify({ peerAgentDid: did }) });
    await readPeers();
    await peers.change((known) => removePeer(known, did));
  }

  /** Ends the half of a pair that is at another server, because the other half cannot be made. */
  async #endHalf(proxy: ProxyCaller, did: string): Promise<void> {
    const { emit, peers } = this.deps;
    await peers.change((known) => removePeer(known, did));
    const isLeft = await proxy.post("/pair/remove", { peerAgentDid: did }).then(() => false, isPairLeft);
    const { host } = new URL(proxy.place.origin);
    emit("pair_half_removed", { from: did, why: isLeft ? `${host} still has its half` : `${host} has ended it too` });
  }

  /** Pins the listed peers that prove their key with the secret of an open ticket, and deletes that secret. */
  async pinListed(listed: readonly Peer[]): Promise<void> {
    const { store: { pairSecrets: secrets }, peers, clock } = this.deps;
    const all = listed.filter(({ agentDid: did, peerKey, profile }) => {
      const known = peers.of(did);
      const isSame = known?.how === "ticket" && !known.removed && !known.gone &&
        known.agentName === profile.agentName && known.humanName === profile.humanName;
      return peerKey !== undefined && !isSame;
    });
    if (all.length === 0) return;
    // The newest are tried, because an agent that confirmed an open ticket paired a moment ago.
    const proving = all.sort((a, b) => a.pairedAt < b.pairedAt ? 1 : -1).slice(0, PROVING_MAX);
    for (const secret of secrets.open(clock.now())) {
      for (const { agentDid: did, profile, peerKey, proxy } of proving) {
        if (!peerKey || !await provesPairKey(secret, { role: "responder", did, profile }, peerKey)) continue;
        if (!await this.#pin({ did, ...profile, proxy }, peerKey)) continue;
        secrets.remove(secret);
        break;
      }
    }
  }

  /**
   * Pins a peer. Returns false when an earlier ticket proved another key of it, because a person would otherwise
   * believe that the new ticket counts.
   */
  async #pin(peer: PinnedPeer, { publicKey }: PairKey): Promise<boolean> {
    const { peers, clock, emit } = this.deps, { did } = peer;
    const before = peers.of(did);
    await peers.change((known) => pinTicket(known, peer, publicKey, toIso(clock.now())));
    if (before?.key !== undefined && before.key !== publicKey) {
      emit("peer_key_changed", { from: did, key: before.key, shown: publicKey });
    }
    return peers.of(did)?.key === publicKey;
  }
}

/** Whether a confirmation would fail in the same way again. */
function isFinal(error: unknown): boolean {
  return error instanceof LocalError || error instanceof ProxyRefusal && !isPassing(error);
}

/** Whether the next try can succeed after this refusal. */
function isPassing({ status }: { status: number }): boolean {
  return status === 429 || status >= 500;
}
