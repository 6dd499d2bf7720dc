/**
 * How the console reads the proxy: over the same routes as `svc admin`, with a token of the registry. Each answer has a
 * deadline and a largest size, and its shape is checked, because the proxy can be another process, which may not answer
 * or may lie.
 */
import type * as z from "zod";
import type { Asker } from "../callers.ts";
import { newAdminToken } from "../admin_tokens/handlers.ts";
import type { Signing } from "../signing_keys.ts";
import type { RegistryStore } from "../store_deps.ts";
import { settledWithin } from "../../shared/clock.ts";
import { parseJson, readBody } from "../../shared/server/http/body.ts";

/** Time for one call. With more, a page of the console waits too long for a proxy that does not answer. */
const CALL_MS = 2_000;
const ANSWER_BYTES_MAX = 1_048_576;

/** The proxy gave no usable answer. The message is for people. */
export class RelayAway extends Error {
  override name = "RelayAway";
}

export interface RelayDeps extends RegistryStore {
  signing: Signing;
  callProxy(request: Request): Promise<Response>;
}

/** Reads a route below `/v1/admin/relay/`. @throws {RelayAway} */
export async function askRelay<S extends z.ZodType>(
  deps: RelayDeps,
  { human }: Asker,
  name: string,
  query: Readonly<Record<string, string>>,
  schema: S,
): Promise<z.output<S>> {
  const { clock, config, callProxy, newId } = deps;
  const abort = new AbortController();
  const { token } = await newAdminToken(deps, human.did, newId());
  const request = new Request(`${config.proxyUrl}/v1/admin/relay/${name}?${new URLSearchParams(query)}`, {
    headers: { Authorization: `Bearer ${token}` },
    redirect: "manual",
    signal: abort.signal,
  });
  const answer = callProxy(request).then((response) => readAnswer(deps, response, schema));
  if (!await settledWithin(clock, answer, CALL_MS)) {
    abort.abort();
    throw new RelayAway(`did not answer within ${CALL_MS / 1000} s`);
  }
  return await answer.catch((cause) => {
    throw cause instanceof RelayAway ? cause : new RelayAway("cannot be reached", { cause });
  });
}

async function readAnswer<S extends z.ZodType>(
  { clock }: RelayDeps,
  response: Response,
  schema: S,
): Promise<z.output<S>> {
  const body = await readBody(response, ANSWER_BYTES_MAX, clock);
  if (response.status !== 200) throw new RelayAway(`answered with status ${response.status}`);
  const parsed = schema.safeParse(parseJson(body)?.value);
  if (!parsed.success) throw new RelayAway("gave an answer of another form; is its version the same?");
  return parsed.data;
}
