/**
 * How the console reads the proxy: over the same routes as `svc admin`, with a token of the registry. Each answer has a
 * deadline and a bound and its shape is checked, because the proxy can be another process that is away or lies.
 */
import type * as z from "zod";
import type { ConsoleSession } from "./sessions.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import { newAdminToken } from "../admin_tokens/handlers.ts";
import type { Signing } from "../signing_keys.ts";
import type { RegistryStore } from "../store_deps.ts";
import { parseIso } from "../../shared/protocol/time.ts";
import { parseJson, readBody } from "../../shared/server/http/body.ts";

/** Time for one call. With more, a page of the console waits too long for a proxy that is away. */
const CALL_MS = 2_000;
const ANSWER_BYTES_MAX = 1_048_576;
/** A token with less time left is replaced, because one that ends while its request is on the way would be refused. */
const TOKEN_LEFT_MS = 60_000;
/** Most tokens that are kept. With less, admins displace each other's tokens, and each page asks for a new one. */
const TOKENS_MAX = 1_000;

/** The proxy gave no usable answer. The message is for people. */
export class RelayAway extends Error {
  override name = "RelayAway";
}

interface RelayDeps extends RegistryStore {
  signing: Signing;
  callProxy(request: Request): Promise<Response>;
}

export class RelayView {
  /** The token of each session, by the digest of the session. */
  readonly #tokens = new BoundedMap<string, { token: string; until: number }>(TOKENS_MAX);

  constructor(private readonly deps: RelayDeps) {}

  /** Reads a route below `/v1/admin/relay/`. @throws {RelayAway} */
  async get<S extends z.ZodType>(
    session: ConsoleSession,
    name: string,
    query: Readonly<Record<string, string>>,
    schema: S,
  ): Promise<z.output<S>> {
    const { clock, config, callProxy } = this.deps;
    const abort = new AbortController();
    const request = new Request(`${config.proxyUrl}/v1/admin/relay/${name}?${new URLSearchParams(query)}`, {
      headers: { Authorization: `Bearer ${await this.#tokenOf(session)}` },
      redirect: "manual",
      signal: abort.signal,
    });
    const late = Promise.withResolvers<never>();
    const cancel = clock.after(CALL_MS, () => {
      late.reject(new RelayAway(`did not answer within ${CALL_MS / 1000} s`));
      abort.abort();
    });
    try {
      const response = await Promise.race([callProxy(request), late.promise]);
      // A token is refused when its key was rotated, or when it is dated ahead of a clock that was set back. Without
      // this, its session would be refused until the token ends.
      if (response.status === 401) this.#tokens.delete(session.digest);
      return await Promise.race([this.#read(response, schema), late.promise]);
    } catch (cause) {
      throw cause instanceof RelayAway ? cause : new RelayAway("cannot be reached", { cause });
    } finally {
      cancel();
    }
  }

  async #read<S extends z.ZodType>(response: Response, schema: S): Promise<z.output<S>> {
    const body = await readBody(response, ANSWER_BYTES_MAX, this.deps.clock);
    if (response.status !== 200) throw new RelayAway(`answered with status ${response.status}`);
    const parsed = schema.safeParse(parseJson(body)?.value);
    if (!parsed.success) throw new RelayAway("gave an answer of another form; is its version the same?");
    return parsed.data;
  }

  async #tokenOf({ digest, human }: ConsoleSession): Promise<string> {
    const now = this.deps.clock.now();
    const known = this.#tokens.get(digest);
    if (known !== undefined && now < known.until) return known.token;
    const { token, expiresAt } = await newAdminToken(this.deps, human.did, this.deps.newId());
    this.#tokens.set(digest, { token, until: (parseIso(expiresAt) ?? 0) - TOKEN_LEFT_MS });
    return token;
  }
}
