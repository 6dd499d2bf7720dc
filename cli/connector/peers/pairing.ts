/**
 * Proves this agent's key to a peer while they pair, and pins the peer's key (D-146). The pair secret travels in the
 * ticket only, from person to person, so neither proxy nor registry chooses the key.
 */
import type { Clock } from "../../../shared/clock.ts";
import { PairingProfile, type PairKey } from "../../../shared/protocol/api/pairing.ts";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import { type PairSide, provePairKey, provesPairKey } from "../../../shared/protocol/pair_key.ts";
import { parseAit, readAitClaims } from "../../../shared/protocol/signed/ait.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import type { Random } from "../../../shared/random.ts";
import type { AgentCredentials } from "../../link/agent_credentials.ts";
import type { Peer } from "../../link/peer_pages.ts";
import type { EmitEvent } from "../events.ts";
import type { PeerBook } from "./peer_book.ts";
import { pinTicket } from "./peers.ts";
import type { PairSecrets } from "../store/pairing_rows.ts";

const SECRET_BYTES = 16;
/** With more, a relay that lists 100,000 keys makes a connector with open tickets compute for minutes. */
const PROVING_MAX = 1_000;

interface PairingDeps {
  clock: Clock;
  random: Random;
  session: Pick<AgentCredentials, "current">;
  secrets: PairSecrets;
  peers: PeerBook;
  did: string;
  emit: EmitEvent;
}

interface PinnedPeer {
  did: string;
  profile: PairingProfile;
  /** Origin of its home proxy, for a peer of another server. */
  proxy: string | undefined;
}

export class Pairing {
  readonly #confirming = new Set<Promise<void>>();

  constructor(private readonly deps: PairingDeps) {}

  newSecret(): string {
    return toBase64Url(this.deps.random.bytes(SECRET_BYTES));
  }

  /** Whether a peer may still prove its key with a ticket of this agent. */
  get hasOpenTicket(): boolean {
    return this.deps.secrets.open(this.deps.clock.now()).length > 0;
  }

  /** Proves the agent's key for a profile; `undefined` for one that the proxy refuses anyway. */
  async proof(role: PairSide["role"], secret: string, profile: unknown): Promise<PairKey | undefined> {
    const { data } = PairingProfile.safeParse(profile);
    if (data === undefined) return undefined;
    const { ait } = await this.deps.session.current();
    const { cnf } = readAitClaims(parseAit(ait));
    return await provePairKey(secret, { role, did: this.deps.did, profile: data }, cnf.jwk.x);
  }

  /** Runs the confirmation of a ticket. Until it ends, messages of unpinned agents wait. */
  async confirming<T>(confirm: () => Promise<T>): Promise<T> {
    const work = confirm(), ended = work.then(() => {}, () => {});
    this.#confirming.add(ended);
    try {
      return await work;
    } finally {
      this.#confirming.delete(ended);
    }
  }

  get isConfirming(): boolean {
    return this.#confirming.size > 0;
  }

  /** Resolves when the confirmations that are under way have ended. Never rejects. */
  async settled(): Promise<void> {
    await Promise.all(this.#confirming);
  }

  /** Pins the initiator of a ticket that this agent has confirmed. Returns false when it did not prove its key. */
  async pinInitiator(secret: string, peer: PinnedPeer, key: PairKey | undefined): Promise<boolean> {
    if (key === undefined || !await provesPairKey(secret, { role: "initiator", ...peer }, key)) return false;
    return await this.#pin(peer, key);
  }

  /** Pins the listed peers that prove their key with the secret of an open ticket, and deletes that secret. */
  async pinListed(listed: readonly Peer[]): Promise<void> {
    const { secrets, peers, clock } = this.deps;
    const all = listed.filter(({ agentDid: did, peerKey, profile }) => {
      const known = peers.of(did);
      const isSame = known?.how === "ticket" && !known.removed && !known.gone &&
        known.agentName === profile.agentName && known.humanName === profile.humanName;
      return peerKey !== undefined && !isSame;
    });
    if (all.length === 0) return;
    // The newest, because an agent that confirmed an open ticket paired a moment ago.
    const proving = all.sort((a, b) => a.pairedAt < b.pairedAt ? 1 : -1).slice(0, PROVING_MAX);
    for (const secret of secrets.open(clock.now())) {
      for (const { agentDid: did, profile, peerKey, proxy } of proving) {
        if (!peerKey || !await provesPairKey(secret, { role: "responder", did, profile }, peerKey)) continue;
        if (!await this.#pin({ did, profile, proxy }, peerKey)) continue;
        secrets.remove(secret);
        break;
      }
    }
  }

  /**
   * Pins a peer. Returns false when an earlier ticket proved another key of it, because a person would otherwise
   * believe that the new ticket counts.
   */
  async #pin({ did, profile, proxy }: PinnedPeer, { publicKey }: PairKey): Promise<boolean> {
    const { peers, clock, emit } = this.deps;
    const before = peers.of(did);
    await peers.change((known) => pinTicket(known, { did, ...profile, proxy }, publicKey, toIso(clock.now())));
    if (before?.key !== undefined && before.key !== publicKey) {
      emit("peer_key_changed", { from: did, key: before.key, shown: publicKey });
    }
    return peers.of(did)?.key === publicKey;
  }
}
