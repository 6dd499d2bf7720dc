/** An invite that also pairs: its join link carries the fields of a ticket of one of the administrator's agents. */
import { ApiError } from "../../shared/client/errors.ts";
import { call, type LocalCalls, post } from "../../shared/client/local_client.ts";
import { parseServiceUrl } from "../../shared/client/service_url.ts";
import { PairStartAnswer } from "../../shared/protocol/api/pairing.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { isTicketOf, parseTicket } from "../../shared/protocol/ticket.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { fieldsOf, joinLink, joinWords } from "./join_link.ts";
import { connectAsPerson, type ConnectionOptions } from "./registry_access.ts";

/** Hours for which an invite is open, so that a person who reads the mail the next morning still gets the account. */
export const INVITE_HOURS = 24;

/**
 * Makes the invite. The ticket is made first, because if the rest fails, an unused ticket ends within minutes, but an
 * unused invite would stay open for a day.
 *
 * @param calls the connector of the agent to pair with
 * @param expiresAt when the invite ends, ISO 8601; `null`: after a day
 * @throws {CliError} `CLI_USAGE` for an agent of another server, `API_KEY_MISSING`
 */
export async function createPairInvite(
  ctx: Context,
  calls: LocalCalls,
  options: ConnectionOptions = {},
  expiresAt: string | null = null,
) {
  const { registry, registryUrl, apiKey } = connectAsPerson(ctx, options);
  const metadata = await registry.metadata();
  const body = { ttlSeconds: LIMITS.ticketTtlMaxSeconds, silent: true };
  const started = await call(calls, PairStartAnswer, post("/v1/pair/start", body));
  const ticket = parseTicket(started.ticket);
  if (ticket === null || !isTicketOf(ticket, metadata.proxyUrl)) {
    throw new CliError("CLI_USAGE", `${calls.agentName} is an agent of another server than ${registryUrl}`);
  }
  const usualEnd = ctx.clock.now() + INVITE_HOURS * 3_600_000;
  const { invite } = await registry.createInvite(apiKey, expiresAt ?? toIso(usualEnd));
  const named = parseServiceUrl(metadata.registryUrl) ?? registryUrl;
  const link = { registryUrl: named, code: invite.code, ticketFields: fieldsOf(ticket) };
  const pairing = { agent: calls.agentName, expiresAt: started.expiresAt };
  return { invite, registryUrl: named, link: joinLink(link), words: [...joinWords(link), "--start"], pairing };
}

/** Returns true when an error says that the person has no account here, or may not invite. */
export function mayNotInvite(error: unknown): boolean {
  return error instanceof CliError && error.code === "API_KEY_MISSING" ||
    error instanceof ApiError && error.status === 403;
}
