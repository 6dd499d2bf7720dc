/**
 * Calls the registry with the service credential. Each call has a time limit, and follows no redirect, because that
 * could take the credential to another server. A response that does not have the exact form of the protocol counts as
 * no answer.
 */
import { Ownership } from "../shared/protocol/api/services.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { HEADERS } from "../shared/protocol/proof.ts";
import { type Bytes, utf8Bytes } from "../shared/protocol/base64url.ts";
import type { Clock } from "../shared/clock.ts";
import type { AccessTokenCheck } from "../shared/server/store/preconditions.ts";
import { parseJson, readBody, refuseByLength } from "../shared/server/http/body.ts";
import { BoundedMap } from "../shared/bounded_map.ts";
import type { ProxyConfig } from "./config.ts";

/** What an answer of a registry may cost. */
export interface AnswerBounds {
  /** Milliseconds to an answer, or to the head of a revocation list. */
  callMs: number;
  /** Milliseconds to the end of a revocation list; `null`: `callMs` to its head, then the usual time for a body. */
  listMs: number | null;
  /** Bytes of any answer but a revocation list. */
  bytes: number;
  listBytes: number;
}

/**
 * Length in bytes above which a list is not parsed in one step, because parsing 10,000 entries at once would delay
 * every other request by 200 ms. No other answer may be as long, because a wrong address could fill the memory.
 */
export const LONG_ANSWER = 100_000;

const OWN_BOUNDS: AnswerBounds = {
  // With more, a message whose sender must be checked would take longer than its own client waits.
  callMs: 5_000,
  listMs: null,
  bytes: LONG_ANSWER,
  listBytes: LIMITS.registryAnswerBytes,
};

/** Thrown when the registry returned no usable response. */
export class RegistryUnavailable extends Error {
  override name = "RegistryUnavailable";
}

/** A response with its complete body. */
export interface RegistryAnswer {
  status: number;
  headers: Headers;
  /** The parsed JSON; for a long revocation list, `crl` as bytes. `undefined` for no JSON, or other long JSON. */
  value: unknown;
}

/** Sends a request: `fetch`, or the `fetch` of the registry app in this process. */
export type Send = (request: Request) => Promise<Response>;

const LIST_START = utf8Bytes('{"crl":"'), LIST_END = utf8Bytes('"}');

/**
 * Returns the revocation list of a long response as bytes, or `undefined` if the body is not an object whose only
 * member is `crl`. The text between the quotes is not checked here, because verification accepts only base64url and
 * dots.
 */
function longList(bytes: Bytes): { crl: Bytes } | undefined {
  const end = bytes.length - LIST_END.length;
  const isList = LIST_START.every((byte, i) => bytes[i] === byte) &&
    LIST_END.every((byte, i) => bytes[end + i] === byte);
  return isList ? { crl: bytes.subarray(LIST_START.length, end) } : undefined;
}

export class RegistryClient {
  /** Running validations by token. Identical calls share one request. */
  readonly #validating = new Map<string, Promise<boolean>>();
  /** When each cached validation ends, milliseconds since the Unix epoch. Empty unless the cache is configured. */
  readonly #accepted = new BoundedMap<string, number>(10_000);
  /** Number of `forgetVerdicts` calls. */
  #generation = 0;

  constructor(
    private readonly send: Send,
    private readonly clock: Clock,
    private readonly config: Pick<ProxyConfig, "registryUrl" | "serviceCredential" | "accessCacheMs">,
    private readonly bounds = OWN_BOUNDS,
  ) {}

  /**
   * Fetches the key document.
   *
   * @throws {RegistryUnavailable}
   */
  keys(): Promise<RegistryAnswer> {
    return this.#call("GET", "/.well-known/svc-keys.json", {});
  }

  /**
   * Fetches the revocation list. The response is 304 if the list still has this tag.
   *
   * @throws {RegistryUnavailable}
   */
  crl(etag: string | null): Promise<RegistryAnswer> {
    const headers = { ...this.#credential(), ...(etag === null ? {} : { "If-None-Match": etag }) };
    return this.#call("GET", "/v1/crl", headers, { isLong: true });
  }

  /**
   * Returns true when the access token is the valid token of the agent. Without `accessCacheMs` the registry is asked
   * for each message, because a session may end at any time. Equal questions at the same time share one call.
   *
   * @throws {RegistryUnavailable} for every response except 204 and a 401 that refuses the token
   */
  validate(claim: AccessTokenCheck): Promise<boolean> {
    const key = `${claim.agentDid} ${claim.aitJti} ${claim.accessToken}`;
    const restMs = (this.#accepted.get(key) ?? 0) - this.clock.now();
    // After a step back of the clock more is left, which would keep an ended session usable for as long as the step.
    if (restMs > 0 && restMs <= this.config.accessCacheMs) return Promise.resolve(true);
    const running = this.#validating.get(key);
    if (running) return running;
    const validation = this.#validate(claim, key).finally(() => {
      // After `forgetVerdicts` a later validation may have taken its place.
      if (this.#validating.get(key) === validation) this.#validating.delete(key);
    });
    this.#validating.set(key, validation);
    return validation;
  }

  /** Drops the cached and the running validations, because a revocation may have made them wrong. */
  forgetVerdicts(): void {
    this.#generation++;
    this.#accepted.clear();
    this.#validating.clear();
  }

  /**
   * Returns the status of an agent and its session, and whether the human owns the agent. They come in one answer,
   * because pairing and revalidation need all three of the same moment.
   *
   * @throws {RegistryUnavailable}
   */
  async ownership(ownerDid: string, agentDid: string): Promise<Ownership> {
    const path = "/internal/v1/identity/agent-ownership";
    const { status, value } = await this.#call("POST", path, this.#credential(), { body: { ownerDid, agentDid } });
    const parsed = Ownership.safeParse(value);
    if (status !== 200 || !parsed.success) throw new RegistryUnavailable(`The ownership check got status ${status}`);
    return parsed.data;
  }

  async #validate({ accessToken, agentDid, aitJti }: AccessTokenCheck, key: string): Promise<boolean> {
    const headers = { ...this.#credential(), [HEADERS.access]: accessToken }, generation = this.#generation;
    const { status, value } = await this.#call("POST", "/v1/agents/auth/validate", headers, {
      body: { agentDid, aitJti },
    });
    if (status === 204) {
      if (this.config.accessCacheMs > 0 && generation === this.#generation) {
        this.#accepted.set(key, this.clock.now() + this.config.accessCacheMs);
      }
      return true;
    }
    const code = (value as { error?: { code?: unknown } } | undefined)?.error?.code;
    if (status === 401 && code !== "INTERNAL_SERVICE_UNAUTHORIZED") return false;
    throw new RegistryUnavailable(`The token validation got status ${status}`);
  }

  #credential(): Record<string, string> {
    const credential = this.config.serviceCredential;
    return credential ? { [HEADERS.serviceId]: credential.id, [HEADERS.serviceSecret]: credential.secret } : {};
  }

  async #call(
    method: "GET" | "POST",
    path: string,
    headers: Record<string, string>,
    { body, isLong = false }: { body?: unknown; isLong?: boolean } = {},
  ): Promise<RegistryAnswer> {
    const abort = new AbortController();
    const request = new Request(this.config.registryUrl + path, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? null : JSON.stringify(body),
      redirect: "manual",
      signal: abort.signal,
    });
    const { callMs, listMs } = this.bounds;
    let cancel = () => {};
    const late = new Promise<never>((_, reject) => {
      cancel = this.clock.after(isLong ? listMs ?? callMs : callMs, () => {
        reject(new RegistryUnavailable("The registry did not answer in time"));
        abort.abort();
      });
    });
    try {
      // A long response has another deadline for its body, because 32 MiB may take more than 5 s.
      return await Promise.race([this.#read(request, isLong, () => isLong && listMs === null && cancel()), late]);
    } catch (cause) {
      throw cause instanceof RegistryUnavailable
        ? cause
        : new RegistryUnavailable("The registry cannot be reached", { cause });
    } finally {
      cancel();
    }
  }

  async #read(request: Request, isLong: boolean, onHead: () => void): Promise<RegistryAnswer> {
    const maxBytes = isLong ? this.bounds.listBytes : this.bounds.bytes;
    const response = await this.send(request);
    onHead();
    const { status, headers } = response;
    try {
      refuseByLength(headers, maxBytes);
    } catch (error) {
      response.body?.cancel().catch(() => {});
      throw error;
    }
    const bytes = await readBody(response, maxBytes, this.clock);
    if (bytes.length > LONG_ANSWER) return { status, headers, value: longList(bytes) };
    return { status, headers, value: parseJson(bytes)?.value };
  }
}
