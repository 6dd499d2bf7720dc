/** HTTP handlers of agent sessions: refresh and validate (D-42 to D-44). */
import type * as z from "zod";
import type { RefreshAnswer, RefreshBody, ValidateBody } from "../../shared/protocol/api/sessions.ts";
import type { Clock } from "../../shared/clock.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { type Answer, type Input, json, noContent } from "../../shared/server/http/route.ts";
import type { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import type { ProvenAgent, ServiceCaller } from "../callers.ts";
import { checkAccessToken } from "./access_token.ts";
import { refreshSession, type SessionDeps } from "./store.ts";

export async function refresh(
  deps: SessionDeps,
  { body, caller, exchange }: Input<undefined, undefined, z.output<typeof RefreshBody>, ProvenAgent>,
): Promise<Answer> {
  const response: RefreshAnswer = { agentAuth: await refreshSession(deps, caller, body, exchange.requestId) };
  return json(response);
}

/** A proxy in another process calls this to check the access token of a request. */
export async function validate(
  deps: { reads: BatchedReads; clock: Clock },
  { body, exchange }: Input<undefined, undefined, z.output<typeof ValidateBody>, ServiceCaller | null>,
): Promise<Answer> {
  const token = exchange.request.headers.get(HEADERS.access);
  if (!token) {
    throw new ServiceError("AGENT_AUTH_VALIDATE_INVALID", {
      details: { fieldErrors: { [HEADERS.access]: ["must be present"] }, formErrors: [] },
    });
  }
  const result = await checkAccessToken(deps, { ...body, accessToken: token });
  if (result === "wrong") throw new ServiceError("AGENT_AUTH_VALIDATE_UNAUTHORIZED");
  if (result === "expired") throw new ServiceError("AGENT_AUTH_VALIDATE_EXPIRED");
  return noContent();
}
