/**
 * The proxy's calls to the registry: each with a time limit, without following redirects, with the service credential.
 * An answer is believed only in the exact form that the protocol gives it; everything else is "unavailable".
 */
import { Ownership } from "../shared/protocol/api/services.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { HEADERS } from "../shared/protocol/proof.ts";
import { type Bytes, utf8Bytes } from "../shared/protocol/base64url.ts";
import type { Clock } from "../shared/clock.ts";
import type { AccessTokenCheck } from "../shared/server/store/access_check.ts";
import { readBody, refuseByLength } from "../shared/server/http/body.ts";
import { BoundedMap } from "../shared/server/bounded_map.ts";
import type { ProxyConfig } from "./config.ts";

/** The registry did not give an answer that can be used. */
export class RegistryUnavailable extends Error {
  override name = "RegistryUnavailable";
}

/** An answer, read to its end. */
export interface RegistryAnswer {
  status: number;
  headers: Headers;
  /** The body parsed as JSON, the `crl` of a long revocation list as bytes; `undefined` when it is not JSON. */
  value: unknown;
}

/** Sends a request; a socket's `fetch`, or the registry app's own. */
export type Send = (request: Request) => Promise<Response>;

/** From this many bytes on an answer is not parsed in one go (D-104, D-210). */
export const LONG_ANSWER = 100_000;

const LIST_START = utf8Bytes('{"crl":"'), LIST_END = utf8Bytes('"}');

/**
 * The revocation list in a long answer, as bytes. `undefined` unless the text is exactly an object with a `crl`: what
 * stands between the quotes needs no check here, since a list is base64url and dots.
 */
function longList(bytes: Bytes): { crl: Bytes } | undefined {
  const end = bytes.length - LIST_END.length;
  const isList = LIST_START.every((byte, i) => bytes[i] === byte) &&
    LIST_END.every((byte, i) => bytes[end + i] === byte);
  return isList ? { crl: bytes.subarray(LIST_START.length, end) } : undefined;
}

/** Asks the registry. */
export class RegistryClient {
  readonly #send: Send;
  readonly #clock: Clock;
  readonly #config: ProxyConfig;
  /** Validations under way: identical ones are joined. */
  readonly #validating = new Map<string, Promise<boolean>>();
  /** Verdicts kept, where configured: until when, milliseconds since the Unix epoch. */
  readonly #accepted = new BoundedMap<string, number>(10_000);

  constructor(send: Send, clock: Clock, config: ProxyConfig) {
    this.#send = send;
    this.#clock = clock;
    this.#config = config;
  }

  /** The key document. */
  keys(): Promise<RegistryAnswer> {
    return this.#call("GET", "/.well-known/svc-keys.json", {});
  }

  /** The revocation list, unless it is still the one with this tag. */
  crl(etag: string | null): Promise<RegistryAnswer> {
    const headers = { ...this.#credential(), ...(etag === null ? {} : { "If-None-Match": etag }) };
    return this.#call("GET", "/v1/crl", headers, { isLong: true });
  }

  /**
   * Whether the access token is the agent's live one (D-63).
   *
   * @throws {RegistryUnavailable} for anything but 204 and a 401 about the token
   */
  validate(claim: AccessTokenCheck): Promise<boolean> {
    const key = `${claim.agentDid} ${claim.aitJti} ${claim.accessToken}`;
    if ((this.#accepted.get(key) ?? 0) > this.#clock.now()) return Promise.resolve(true);
    let validation = this.#validating.get(key);
    if (!validation) {
      validation = this.#validate(claim, key).finally(() => this.#validating.delete(key));
      this.#validating.set(key, validation);
    }
    return validation;
  }

  /** Forgets the verdicts that are kept; a revocation may have changed them. */
  forgetVerdicts(): void {
    this.#accepted.clear();
  }

  /**
   * How an agent and its session stand, and whether the human owns it (D-48).
   *
   * @throws {RegistryUnavailable}
   */
  async ownership(ownerDid: string, agentDid: string): Promise<Ownership> {
    const path = "/internal/v1/identity/agent-ownership";
    const { status, value } = await this.#call("POST", path, this.#credential(), { body: { ownerDid, agentDid } });
    const parsed = Ownership.safeParse(value);
    if (status !== 200 || !parsed.success) throw new RegistryUnavailable(`Ownership was answered with ${status}`);
    return parsed.data;
  }

  async #validate({ accessToken, agentDid, aitJti }: AccessTokenCheck, key: string): Promise<boolean> {
    const headers = { ...this.#credential(), [HEADERS.access]: accessToken };
    const { status, value } = await this.#call("POST", "/v1/agents/auth/validate", headers, {
      body: { agentDid, aitJti },
    });
    if (status === 204) {
      if (this.#config.accessCacheMs > 0) this.#accepted.set(key, this.#clock.now() + this.#config.accessCacheMs);
      return true;
    }
    const code = (value as { error?: { code?: unknown } } | undefined)?.error?.code;
    if (status === 401 && code !== "INTERNAL_SERVICE_UNAUTHORIZED") return false;
    throw new RegistryUnavailable(`Validation was answered with ${status}`);
  }

  #credential(): Record<string, string> {
    const credential = this.#config.serviceCredential;
    return credential ? { [HEADERS.serviceId]: credential.id, [HEADERS.serviceSecret]: credential.secret } : {};
  }

  async #call(
    method: "GET" | "POST",
    path: string,
    headers: Record<string, string>,
    { body, isLong = false }: { body?: unknown; isLong?: boolean } = {},
  ): Promise<RegistryAnswer> {
    const abort = new AbortController();
    const request = new Request(this.#config.registryUrl + path, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? null : JSON.stringify(body),
      redirect: "manual",
      signal: abort.signal,
    });
    let cancel = () => {};
    const late = new Promise<never>((_, reject) => {
      cancel = this.#clock.after(LIMITS.registryTimeoutMs, () => {
        reject(new RegistryUnavailable("The registry did not answer in time"));
        abort.abort();
      });
    });
    try {
      // The body of a long answer has its own deadline, that of every body: 32 MiB may take more than 5 s.
      return await Promise.race([this.#read(request, isLong, () => isLong && cancel()), late]);
    } catch (cause) {
      throw cause instanceof RegistryUnavailable
        ? cause
        : new RegistryUnavailable("The registry cannot be reached", { cause });
    } finally {
      cancel();
    }
  }

  async #read(request: Request, isLong: boolean, onHead: () => void): Promise<RegistryAnswer> {
    const maxBytes = isLong ? LIMITS.registryAnswerBytes : LIMITS.registryShortAnswerBytes;
    const response = await this.#send(request);
    onHead();
    const { status, headers } = response;
    try {
      refuseByLength(headers, maxBytes);
    } catch (error) {
      response.body?.cancel().catch(() => {});
      throw error;
    }
    const bytes = await readBody(response, maxBytes, this.#clock);
    if (bytes.length > LONG_ANSWER) return { status, headers, value: longList(bytes) };
    const text = new TextDecoder().decode(bytes);
    try {
      return { status, headers, value: text === "" ? undefined : JSON.parse(text) };
    } catch {
      return { status, headers, value: undefined };
    }
  }
}
