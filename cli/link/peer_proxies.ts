/**
 * Finds the proxy at which each peer lives (D-287). A call to another server carries a visit token, because the access
 * token is a secret of the agent's own registry. Each proxy has a clock of its own here, because one proxy with a wrong
 * clock would otherwise make the others refuse.
 */
import { BoundedMap } from "../../shared/bounded_map.ts";
import { type ApiError, UnreachableError } from "../../shared/client/errors.ts";
import type { Clock } from "../../shared/clock.ts";
import { apiErrorOf, type HttpResponse } from "../../shared/client/http.ts";
import { ERRORS, isErrorCode } from "../../shared/protocol/errors.ts";
import { isOrigin } from "../../shared/protocol/origins.ts";
import type { VisitCredentials } from "./agent_credentials.ts";
import { describeError } from "../../shared/client/refusals.ts";
import { type CallerDeps, ProxyCaller, type ProxyRequest } from "./proxy_caller.ts";
import { ServiceClock } from "./service_clock.ts";

/** Other servers that are remembered. With more, a relay that lists peers of many servers could fill the memory. */
const PROXIES_MAX = 1_000;

interface PeerProxiesDeps extends Omit<CallerDeps, "clock" | "session"> {
  session: VisitCredentials;
  machine: Clock;
  /** Throws for an origin that must not be called, such as plain http to another machine. */
  check(origin: string): void;
  /** Called when another server has answered with success. */
  onAnswer?: (host: string) => void;
}

export interface LastCall {
  /** Milliseconds since the Unix epoch by the clock of this machine, because a person reads how long ago it was. */
  at: number;
  /** Why it failed; `null` when it was answered with success. */
  problem: string | null;
}

type CallerParts = ConstructorParameters<typeof ProxyCaller>;

/** Calls another server, and remembers how the last call ended. */
class NotedCaller extends ProxyCaller {
  last: LastCall | null = null;

  constructor(private readonly of: Pick<PeerProxiesDeps, "machine" | "onAnswer">, ...parts: CallerParts) {
    super(...parts);
  }

  override async call(request: ProxyRequest): Promise<HttpResponse> {
    const note = (problem: string | null) => {
      this.last = { at: this.of.machine.now(), problem };
    };
    try {
      const response = await super.call(request), error = apiErrorOf(response), { host } = new URL(this.place.origin);
      note(error && (refusalAbroad(host, error) ?? error.code ?? `status ${error.status}`));
      if (error !== null) return { ...response, text: inOwnWords(error, host) };
      this.of.onAnswer?.(host);
      return response;
    } catch (error) {
      note(describeError(error));
      throw error;
    }
  }
}

export class PeerProxies {
  readonly #abroad = new BoundedMap<string, NotedCaller>(PROXIES_MAX);

  /** @param originOf the origin of a peer's home proxy; `undefined` for the agent's own */
  constructor(
    private readonly deps: PeerProxiesDeps,
    private readonly home: ProxyCaller,
    private readonly originOf: (did: string) => string | undefined,
  ) {}

  /** What the last call to a server led to; `null` for one that was not called yet. */
  lastOf(origin: string): LastCall | null {
    return this.#abroad.get(origin)?.last ?? null;
  }

  /** Forgets the last call to the server of a peer, because the peer has paired there since. */
  forgetLast(did: string): void {
    const caller = this.#abroad.get(this.originOf(did) ?? "");
    if (caller) caller.last = null;
  }

  /** The proxy of a peer. @throws {UnreachableError} for one that must not be called */
  of(did: string): ProxyCaller {
    const origin = this.originOf(did);
    return origin === undefined ? this.home : this.at(origin);
  }

  /** Host of the server of a peer elsewhere; `null` for a peer at the agent's own server. */
  hostOf(did: string): string | null {
    const origin = this.originOf(did);
    return origin === undefined ? null : new URL(origin).host;
  }

  /** The proxy of another server. @throws {UnreachableError} for one that must not be called */
  at(origin: string): ProxyCaller {
    const known = this.#abroad.get(origin);
    if (known) return known;
    const { machine, check, ...deps } = this.deps;
    try {
      // A ticket can name an origin that is too long for `peers.json`, and a file with it could not be read again.
      if (!isOrigin(origin)) throw new TypeError(`${origin} is not the origin of a server`);
      check(origin);
    } catch (error) {
      throw new UnreachableError(describeError(error), { cause: new Error("connection refused") });
    }
    const { session } = deps;
    const access = { current: () => session.visit(origin), renew: () => Promise.resolve(session.endVisit(origin)) };
    const place = { dialUrl: origin, origin };
    const caller = new NotedCaller(this.deps, { ...deps, clock: new ServiceClock(machine) }, place, access);
    this.#abroad.set(origin, caller);
    return caller;
  }
}

/**
 * Returns the refusal of another server in words of this program, because a person or a model could take that server's
 * words for words of svc.
 */
function inOwnWords(error: ApiError, host: string): string {
  const { status, code } = error;
  // Without a code only the status is shown.
  if (code === null) return "";
  const when = isErrorCode(code) ? ERRORS[code].when : `status ${status}`;
  return JSON.stringify({ error: { code, message: refusalAbroad(host, error) ?? `${host} refuses: ${when}` } });
}

/** What refusals mean when another server sends them. Their own text and fix are about the server of the agent. */
const ABROAD: ReadonlyMap<string | null, string> = new Map([
  ["PROXY_AUTH_TIMESTAMP_SKEW", "has another time than this machine: one of the two clocks is wrong"],
  [
    "PROXY_AGENT_ACCESS_INVALID",
    "does not take the token that your server makes for it: the clock of one of the two servers may be wrong",
  ],
  [
    "PROXY_AUTH_DEPENDENCY_UNAVAILABLE",
    "cannot check this agent now: the admin there sees the reason with svc admin issuers",
  ],
]);

/**
 * Returns the text for a refusal of another server, or `null` where the text of its code says enough. The one for other
 * refusals with 401 names two reasons, because a server does not tell strangers who is paired.
 */
export function refusalAbroad(host: string, { status, code }: Pick<ApiError, "status" | "code">): string | null {
  const text = ABROAD.get(code);
  if (text !== undefined) return `${host} ${text}`;
  if (status !== 401) return null;
  return `${host} does not accept this agent: the pair has ended there, or it takes no agents of other servers`;
}
