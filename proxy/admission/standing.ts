/**
 * What admission has proven for a sender, its access token and a recipient. While it holds, a message needs no read and
 * no signature check of its identity token: only its timestamp, proof, nonce and rate limit are checked. Pair, agent
 * and session remain preconditions of each commit, or were read within the last second (D-101), because a message could
 * otherwise pass long after one of the three has ended.
 */
import type { KvEntryMaybe } from "../../shared/server/kv.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import type { VerificationKeys } from "../../shared/protocol/signed/jws.ts";
import { hexDigest } from "../../shared/server/crypto.ts";
import type { RequestContext, SignedHeaders } from "../../shared/server/http/route.ts";
import { signedHeaders } from "../../shared/server/http/signed_request.ts";
import type { Update } from "../../shared/server/store/batch.ts";
import type { AitCache, VerifiedAit } from "./ait_cache.ts";
import type { CrlCache } from "./crl_cache.ts";
import type { KeyCache } from "./key_cache.ts";
import type { PairRecord } from "../schema/records.ts";

/**
 * With more, standings that are no longer used take memory. With less, every message of a sender to many recipients
 * would be checked completely.
 */
const STANDINGS_MAX = 20_000;

/** Says that a record on which admission relied changed before the request committed. */
export class PreconditionFailed {
  constructor(readonly code: "PROXY_AUTH_FORBIDDEN" | "PROXY_AGENT_ACCESS_INVALID") {}
}

/** What earlier checks have proven for a sender and a recipient. */
export interface Standing {
  /** Digests of the identity token and the access token, and the recipient. */
  name: string;
  ait: VerifiedAit;
  pair: KvEntryMaybe<PairRecord>;
  /** Must be unchanged at the commit, because a message could otherwise pass after pair, agent or session ended. */
  preconditions: readonly Update<PreconditionFailed>[];
  keys: VerificationKeys | null;
  list: unknown;
  /** The standing holds from `since` on and before `until`, milliseconds since the Unix epoch. */
  since: number;
  until: number;
}

interface StandingsDeps {
  aits: Pick<AitCache, "kept">;
  keys: Pick<KeyCache, "fresh">;
  crl: Pick<CrlCache, "usable">;
  /** Longest time that a standing holds when the store is on the network, milliseconds; 0 when there is no bound. */
  reliedMs: number;
}

export class Standings {
  readonly #kept = new BoundedMap<string, Standing>(STANDINGS_MAX);

  constructor(private readonly deps: StandingsDeps) {}

  /** Returns the standing of a request; `null` when every check must be made. */
  of(exchange: RequestContext, now: number): Standing | null {
    const headers = signedHeaders(exchange), ait = headers.token ? this.deps.aits.kept(headers.token) : undefined;
    const name = ait && nameOf(headers, ait), standing = name === undefined ? undefined : this.#kept.get(name);
    if (!standing) return null;
    const { keys, crl } = this.deps;
    const holds = now >= standing.since && now < standing.until && keys.fresh === standing.keys &&
      crl.usable === standing.list;
    if (holds) return standing;
    this.end(standing);
    return null;
  }

  /** Keeps what all checks of a request have proven. `now` is when they began, before anything was read. */
  add(
    exchange: RequestContext,
    { ait, pair, preconditions }: Pick<Standing, "ait" | "pair" | "preconditions">,
    now: number,
  ): void {
    const { keys, crl, reliedMs } = this.deps;
    const until = Math.min(ait.claims.exp * 1000, reliedMs > 0 ? now + reliedMs : Infinity);
    const name = nameOf(signedHeaders(exchange), ait);
    if (name === undefined || keys.fresh === null || crl.usable === null) return;
    this.#kept.set(name, { ait, pair, preconditions, name, keys: keys.fresh, list: crl.usable, since: now, until });
  }

  /** Ends a standing, so that every check of the next message is made. */
  end({ name }: Standing): void {
    this.#kept.delete(name);
  }
}

function nameOf({ access, recipient }: SignedHeaders, { sha256 }: VerifiedAit): string | undefined {
  return access && recipient ? `${sha256} ${hexDigest(access)} ${recipient}` : undefined;
}
