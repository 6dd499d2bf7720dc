/**
 * HTTP handlers of invites (D-36, D-37).
 */
import type * as z from "zod";
import type {
  CreateInviteAnswer,
  CreateInviteBody,
  Invite,
  InvitePath,
  RedeemInviteAnswer,
  RedeemInviteBody,
} from "../../shared/protocol/api/invites.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { type Answer, type Input, json, noContent } from "../../shared/server/http/route.ts";
import { humanView } from "../accounts/store.ts";
import type { ApiKeyCaller } from "../callers.ts";
import type { RegistryConfig } from "../config.ts";
import * as store from "./store.ts";
import type { InviteDeps } from "./store.ts";

export async function createInvite(
  deps: InviteDeps,
  { body, caller, exchange }: Input<undefined, undefined, z.output<typeof CreateInviteBody>, ApiKeyCaller>,
): Promise<Answer> {
  const { invite, code } = await store.createInvite(deps, caller.human, body.expiresAt, exchange.requestId);
  const response: CreateInviteAnswer = {
    invite: { id: invite.id, code, expiresAt: invite.expiresAt, createdAt: invite.createdAt },
  };
  return json(response, 201);
}

export async function redeemInvite(
  deps: InviteDeps & { config: Pick<RegistryConfig, "proxyUrl"> },
  { body, exchange }: Input<undefined, undefined, z.output<typeof RedeemInviteBody>, null>,
): Promise<Answer> {
  const { human, key } = await store.redeemInvite(deps, body, exchange.requestId);
  const response: RedeemInviteAnswer = {
    human: humanView(human),
    apiKey: { id: key.record.id, name: key.record.name, token: key.token },
    proxyUrl: deps.config.proxyUrl,
  };
  return json(response, 201);
}

export async function listInvites(
  deps: InviteDeps,
  { query }: Input<undefined, z.output<typeof PageQuery>, undefined, ApiKeyCaller>,
): Promise<Answer> {
  const now = deps.clock.now();
  const { items, nextCursor } = await store.listInvites(deps, query);
  const invites: Invite[] = items.map((invite) => ({
    id: invite.id,
    status: store.inviteStatus(invite, now),
    expiresAt: invite.expiresAt,
    createdAt: invite.createdAt,
    redeemedAt: invite.redeemedAt,
  }));
  return json({ invites, pagination: { limit: query.limit, nextCursor } });
}

export async function deleteInvite(
  deps: InviteDeps,
  { params, caller, exchange }: Input<z.output<typeof InvitePath>, undefined, undefined, ApiKeyCaller>,
): Promise<Answer> {
  await store.deleteInvite(deps, caller.human, params.id, exchange.requestId);
  return noContent();
}
