/**
 * Makes one call to a service and checks the response against its wire schema. It neither retries nor stores anything,
 * because the caller decides what an error means.
 */
import type * as z from "zod";
import { tryParse } from "../../shared/protocol/json_text.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import type { Random } from "../../shared/random.ts";
import { UnreachableError } from "../../shared/client/errors.ts";
import { apiErrorOf, asUnreachable, exchange, type ExchangeDeps, type HttpRequest } from "../../shared/client/http.ts";
import { CliError } from "../errors.ts";

export interface HttpDeps extends ExchangeDeps {
  random: Random;
}

export interface Call<S extends z.ZodType | null> extends Pick<HttpRequest, "method" | "url" | "headers" | "body"> {
  /** Sent as a bearer token. */
  token?: string | null;
  /** Schema of the response; `null` for an empty one. */
  response: S;
}

export type Answer<S> = S extends z.ZodType ? z.output<S> : null;

/**
 * Sends a call and returns the response body.
 *
 * @throws {import("../../shared/client/errors.ts").ApiError} when the service refuses
 * @throws {UnreachableError} when no service answers, or the response is not one of this protocol
 * @throws {CliError} `CLI_USAGE` for a secret that no header can have; nothing was sent
 */
export async function callService<S extends z.ZodType | null>(deps: HttpDeps, request: Call<S>): Promise<Answer<S>> {
  const { method, url, body, token = null } = request;
  const origin = new URL(url).origin;
  const headers = {
    ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    ...(token === null ? {} : { [HEADERS.authorization]: `Bearer ${token}` }),
    ...request.headers,
  };
  try {
    new Headers(headers);
  } catch {
    // Otherwise `fetch` would fail before it connects, which would read as a service that cannot be reached.
    throw new CliError("CLI_USAGE", "The API key or secret has a line break, or a character that no header can have", {
      fix: "Copy it again, in one line.",
    });
  }
  const response = await exchange(deps, {
    method,
    url,
    headers,
    body,
    timeoutMs: LIMITS.registryTimeoutMs,
    connectMs: LIMITS.registryConnectMs,
    // The largest response is a revocation list.
    maxBytes: LIMITS.registryAnswerBytes,
    onTooLarge: "fail",
  }).catch((error) => {
    throw asUnreachable(origin, error);
  });
  if (response.status >= 300 && response.status < 400) {
    throw new UnreachableError(`${origin} answered with a redirect, which is not followed`);
  }
  const refusal = apiErrorOf(response);
  if (refusal) throw refusal;
  return (request.response === null ? null : parseAnswer(request.response, response.text, origin)) as Answer<S>;
}

function parseAnswer(schema: z.ZodType, text: string, origin: string): unknown {
  const value = tryParse(text);
  if (value === null) {
    throw new UnreachableError(`${origin} answered with something that is not JSON: it is not an svc service`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const where = parsed.error.issues[0]?.path.join(".") || "the whole";
  throw new UnreachableError(`${origin} answered with something unexpected (${where}): it may have another version`);
}
