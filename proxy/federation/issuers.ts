/**
 * What other registries publish (D-282): their keys and revocation lists, which are read when one of their agents
 * comes, and never for a local one. Each issuer has the same caches as this server's own registry, so the same rules
 * hold: an older list is refused, and without a usable list the issuer's agents are refused.
 */
import { BlockList, isIP } from "node:net";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { DAY_MS, settledWithin } from "../../shared/clock.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { authorityOf } from "../../shared/protocol/did.ts";
import { AitCache, type KeptAits } from "../admission/ait_cache.ts";
import type { IssuerDocuments } from "../admission/checks.ts";
import { CrlCache } from "../admission/crl_cache.ts";
import { KeyCache } from "../admission/key_cache.ts";
import { Turns } from "../owner_budgets.ts";
import {
  type AnswerBounds,
  type RegistryAnswer,
  RegistryClient,
  RegistryUnavailable,
  type Send,
} from "../registry_client.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

/** Resolves a host name to all its addresses. */
export type Lookup = (host: string) => Promise<readonly { address: string }[]>;

interface IssuersDeps extends Pick<ServiceDeps, "kv" | "clock" | "log" | "metrics" | "random"> {
  send: Send;
  lookup: Lookup;
  config: { registryKeysTtlMs: number; federationPrivate: boolean };
  /** Called after each list that was installed. */
  onList(authority: string, deleted: ReadonlyMap<string, number>): void;
}

const BOUNDS: AnswerBounds = { callMs: 3_000, listMs: 10_000, bytes: 65_536, listBytes: 8_388_608 };
/**
 * How long a list is used before the issuer is asked for a newer one. With more, a revocation by the issuer takes
 * longer to reach this server. With less, a busy agent makes this server fetch the list more often.
 */
const LIST_FRESH_MS = 60_000;
/** Age up to which a list is used. With less, a short outage of an issuer would stop its agents. */
const LIST_USABLE_MS = 600_000;
/** Wait after a failure, doubled with each one. With less, a registry that is down is asked with every message. */
const PAUSE = { first: 5_000, most: 300_000 };
/**
 * Wait of a queued message for the first list. With more, a registry that does not answer would hold up what others have
 * sent to the same recipient. With less, a message of a revoked agent would leave before a slow answer.
 */
const FIRST_LIST_MS = 2_000;
const IDLE_MS = 3_600_000;
const ISSUERS_MAX = 1_000;
/**
 * Verified tokens of all issuers that are remembered. With a number for each issuer instead, one person's host names
 * could fill the memory, at up to 8 KiB a token.
 */
const AITS_KEPT = 10_000;
/** Bytes that an entry of a list takes in memory, approximately. */
const ENTRY_BYTES = 210;
const LISTS_BYTES = 67_108_864;
/** Calls that run at the same time. With more, hostile issuers that answer slowly would hold connections and memory. */
const CALLS = { atOnce: 16, waiting: 100, waitMs: 3_000 };
/**
 * Calls of one domain with all its subdomains, and calls of issuers that are not known to work for one owner here. With
 * more, the names of one person, or the tickets that one person made, could keep every other issuer waiting. A domain
 * is the last two labels of a name, so all registries below `co.uk` share these calls. With three labels, a person with
 * `a.example` would have as many domains as subdomains.
 */
const CALLS_OF_ONE = { ...CALLS, atOnce: 4 };
/**
 * Owners here of an issuer whose turns its calls may take. With one, a person whose turns are used up could name the
 * issuer of another person's visitors all the time, and it would never be asked.
 */
const HOSTS_KEPT = 8;
/**
 * How long the newest list of an issuer is remembered, so that an older one is refused. Afterwards an older one is
 * refused in any case, because a list is valid for only 15 minutes.
 */
const SEEN_MS = 7 * DAY_MS;

/** Asks one issuer. A call keeps its turn until its body is read, because a slow body also holds a connection. */
class IssuerClient extends RegistryClient {
  #failures = 0;
  readonly #domain: string;
  /** The issuer is not asked again before this time, milliseconds since the Unix epoch. */
  pausedUntil = -Infinity;
  /** Why the issuer could not be asked the last time; `null` after an answer. */
  problem: string | null = null;
  /** Owners here who have let its agents in, the newest last. */
  readonly hosts = new BoundedMap<string, true>(HOSTS_KEPT);
  /**
   * True once its list was read and verified, until a call fails. The tickets of one owner then hold up no call of it.
   * Without the check of the list, any slow answer would do, and one owner's registries would take all turns.
   */
  works = false;

  constructor(private readonly deps: IssuerDeps, issuer: string) {
    super(deps.send, deps.clock, { registryUrl: issuer, serviceCredential: null, accessCacheMs: 0 }, BOUNDS);
    this.#domain = new URL(issuer).hostname.split(".").slice(-2).join(".");
  }

  override keys(): Promise<RegistryAnswer> {
    return this.#ask(() => super.keys());
  }

  override async crl(etag: string | null): Promise<RegistryAnswer> {
    const answer = await this.#ask(() => super.crl(etag));
    this.works = false;
    return answer;
  }

  async #ask(call: () => Promise<RegistryAnswer>): Promise<RegistryAnswer> {
    const { clock, turns, turnsOfOne, metrics } = this.deps;
    const pauseMs = this.pausedUntil - clock.now();
    // A longer pause than the longest comes from a clock that stepped back, and would last as long as that step.
    if (pauseMs > 0 && pauseMs <= PAUSE.most) throw new RegistryUnavailable("The last call failed a short time ago");
    const hosts = [...this.hosts.keys()], host = hosts.findLast((one) => turnsOfOne.isFree(one)) ?? hosts.at(-1);
    const endOfHost = this.works || host === undefined ? () => {} : await turnsOfOne.take(host);
    const endOfDomain = endOfHost && await turnsOfOne.take(this.#domain);
    const endOfAll = endOfDomain && await turns.take("all");
    const end = () => [endOfHost, endOfDomain, endOfAll].forEach((one) => one?.());
    if (!endOfAll) {
      end();
      // Not counted as a failure, because slow answers of other issuers would otherwise shut this one out with a pause.
      throw new RegistryUnavailable("Too many registries are asked at once");
    }
    try {
      const answer = await call();
      if (![200, 304, 404].includes(answer.status)) throw new RegistryUnavailable(`Status ${answer.status}`);
      this.#failures = 0;
      this.problem = null;
      metrics.count("issuer_calls_total", "answered");
      return answer;
    } catch (error) {
      this.works = false;
      this.problem = error instanceof RegistryUnavailable ? error.message : "It cannot be reached";
      this.pausedUntil = clock.now() + Math.min(PAUSE.first * 2 ** this.#failures++, PAUSE.most);
      metrics.count("issuer_calls_total", "failed");
      throw error;
    } finally {
      end();
    }
  }
}

interface IssuerDeps extends IssuersDeps {
  aits: KeptAits;
  turns: Turns;
  turnsOfOne: Turns;
}

class Issuer implements IssuerDocuments {
  readonly #client: IssuerClient;
  readonly #keys: KeyCache;
  readonly #aits: AitCache;
  readonly list: CrlCache;
  #listDueAt = -Infinity;
  usedAt = -Infinity;

  constructor(private readonly deps: IssuerDeps, readonly issuer: string) {
    const { clock, config } = deps, authority = authorityOf(issuer) ?? "";
    this.#client = new IssuerClient(deps, issuer);
    this.#keys = new KeyCache(this.#client, clock, config.registryKeysTtlMs);
    this.#aits = new AitCache(this.#keys, issuer, deps.aits);
    this.list = new CrlCache({ ...deps, metrics: null, registry: this.#client, keys: this.#keys }, {
      issuer,
      seen: { key: KEYS.issuer(authority), expireIn: SEEN_MS },
      refreshIntervalMs: LIST_FRESH_MS,
      maxAgeMs: LIST_USABLE_MS,
    });
    // The list is read when an agent comes and not by the clock, because a server with many issuers would otherwise
    // call all the time.
    this.list.stop();
    this.list.onInstalled = () => deps.onList(authority, this.list.deletedAgents);
  }

  get keysAgeSeconds(): number {
    return this.#keys.ageSeconds;
  }

  /** Why it was not reached, or else why its list does not count, as after the restore of an older backup there. */
  get problem(): string | null {
    return this.#client.problem ?? this.list.problem;
  }

  get hosts(): BoundedMap<string, true> {
    return this.#client.hosts;
  }

  readonly aits: IssuerDocuments["aits"] = { verify: (token) => this.#named(this.#aits.verify(token)) };
  readonly keys: IssuerDocuments["keys"] = {
    current: () => this.#named(this.#keys.current()),
    withKey: (kid) => this.#named(this.#keys.withKey(kid)),
  };
  readonly crl: IssuerDocuments["crl"] = {
    isRevoked: async (jti) => {
      const refreshing = this.#refreshIfDue();
      if (!this.list.ready) await refreshing;
      return await this.#named(this.list.isRevoked(jti));
    },
    wasRevoked: async (agentDid, jti) => {
      // A restart forgets the list, so it is read now. If it cannot be read, the messages do not wait for it.
      if (this.list.entries < 0) await settledWithin(this.deps.clock, this.crl.isRevoked(jti), FIRST_LIST_MS);
      return this.list.wasRevoked(agentDid, jti);
    },
  };

  async #refreshIfDue(): Promise<void> {
    const now = this.deps.clock.now();
    if (now < this.#listDueAt && this.#listDueAt - now <= PAUSE.most) return;
    this.#listDueAt = now + LIST_FRESH_MS;
    if (await this.list.refresh()) this.#client.works = true;
    else {
      this.#listDueAt = Math.max(this.deps.clock.now() + PAUSE.first, this.#client.pausedUntil);
    }
  }

  /** Names the registry in the refusal, because a person could otherwise not know at which of two servers to look. */
  async #named<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (cause) {
      if (!(cause instanceof RegistryUnavailable)) throw cause;
      const againAt = Math.max(this.list.ready ? -Infinity : this.#listDueAt, this.#client.pausedUntil);
      const waitMs = Math.max(1_000, againAt - this.deps.clock.now());
      throw new ServiceError("PROXY_AUTH_DEPENDENCY_UNAVAILABLE", {
        message: `The registry of the caller, ${this.issuer}, cannot be asked about its agents`,
        headers: { "Retry-After": String(Math.ceil(waitMs / 1000)) },
        cause,
      });
    }
  }
}

export class Issuers {
  readonly #deps: IssuerDeps;
  readonly #known = new BoundedMap<string, Issuer>(ISSUERS_MAX);
  #lookedAt = -Infinity;

  constructor(deps: IssuersDeps) {
    const send: Send = async (request) => {
      if (!deps.config.federationPrivate) await requirePublic(deps.lookup, new URL(request.url));
      return await deps.send(request);
    };
    // Issuers are dropped after each list, because the lists of one minute alone could fill the memory.
    const onList: IssuersDeps["onList"] = (...list) => {
      this.#letGo(deps.clock.now());
      deps.onList(...list);
    };
    this.#deps = {
      ...deps,
      send,
      onList,
      aits: new BoundedMap(AITS_KEPT),
      turns: new Turns(deps.clock, CALLS),
      turnsOfOne: new Turns(deps.clock, CALLS_OF_ONE),
    };
  }

  /**
   * Returns what an issuer publishes. Its caches are made at its first use. The policy has accepted `issuer`.
   *
   * @param host the owner here who has let its agent in
   */
  of(issuer: string, host: string | null = null): Issuer {
    const now = this.#deps.clock.now();
    const known = this.#known.get(issuer) ?? new Issuer(this.#deps, issuer);
    known.usedAt = now;
    if (host !== null) known.hosts.set(host, true);
    this.#known.set(issuer, known);
    if (Math.abs(now - this.#lookedAt) >= LIST_FRESH_MS) this.#letGo(now);
    return known;
  }

  /** Issuers that this server keeps. One without a use for an hour is dropped at a later use of any issuer. */
  get known(): ReadonlyMap<string, Pick<Issuer, "keysAgeSeconds" | "list" | "problem">> {
    return new Map(this.#known);
  }

  /** Drops issuers without a use for an hour, and the least recently used while all lists together are too large. */
  #letGo(now: number): void {
    this.#lookedAt = now;
    let bytes = 0;
    for (const [issuer, { list, usedAt }] of [...this.#known].reverse()) {
      // The larger one counts, because a hostile list may name one token of many agents, or many tokens of one agent.
      bytes += Math.max(0, list.entries, list.deletedAgents.size) * ENTRY_BYTES;
      if (now - usedAt >= IDLE_MS || bytes > LISTS_BYTES) this.#known.delete(issuer);
    }
  }
}

/** Ranges that are not of the open internet. */
const INSIDE_IPV4 = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 " +
  "192.168.0.0/16 198.18.0.0/15 224.0.0.0/4 240.0.0.0/4";
/**
 * 6to4 and Teredo are included, because such an address can lead to an IPv4 address inside, and no registry has one.
 */
const INSIDE_IPV6 = "::/96 64:ff9b:1::/48 2001::/32 2002::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8";
/** Prefix of NAT64, which leads to the IPv4 address after it. `BlockList` itself handles addresses after `::ffff:`. */
const NAT64 = "64:ff9b::";
const INSIDE = insideAddresses();

function insideAddresses(): BlockList {
  const blocked = new BlockList();
  const add = (subnets: string, type: "ipv4" | "ipv6", before = "", more = 0) => {
    for (const subnet of subnets.split(" ")) {
      const [address, bits] = subnet.split("/");
      blocked.addSubnet(before + address, more + Number(bits), type);
    }
  };
  add(INSIDE_IPV4, "ipv4");
  add(INSIDE_IPV4, "ipv6", NAT64, 96);
  add(INSIDE_IPV6, "ipv6");
  return blocked;
}

/**
 * Returns true when an address is inside a network. Such an address is not called for a stranger, because that would
 * open what a firewall closes.
 */
export function isInside(address: string): boolean {
  const [text = ""] = address.split("%"), version = isIP(text);
  return version === 0 || INSIDE.check(text, version === 6 ? "ipv6" : "ipv4");
}

/**
 * Checks that the host of a URL is not inside a network, before it is called.
 *
 * @throws {RegistryUnavailable} when any of its addresses is inside a network, it has none, or this process may not ask
 */
async function requirePublic(lookup: Lookup, { protocol, hostname }: URL): Promise<void> {
  // Such an issuer has a loopback name; the policy accepts it only with ENVIRONMENT=local.
  if (protocol === "http:") return;
  const found = await lookup(hostname).catch(({ code }) => {
    if (code !== "EPERM") return [];
    throw new RegistryUnavailable(`This process may not call it: leave --allow-net out, or add ${hostname} to it`);
  });
  if (found.length === 0) throw new RegistryUnavailable("The name of the registry has no address");
  if (found.some(({ address }) => isInside(address))) {
    throw new RegistryUnavailable("The name of the registry has an address inside a network");
  }
}
