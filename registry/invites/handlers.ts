/**
 * HTTP handlers of invites. Admins can delete them, because a code that leaked must be revocable. The `role` in the
 * body of a redemption is ignored, because a caller could otherwise make itself an admin.
 */
import { Human, NewApiKey } from "../../shared/protocol/api/accounts.ts";
import {
  CreateInviteAnswer,
  type CreateInviteBody,
  Invite,
  type RedeemInviteAnswer,
  type RedeemInviteBody,
} from "../../shared/protocol/api/invites.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { type Answer, json, pick } from "../../shared/server/http/route.ts";
import { doneById, type WithBody, type WithQuery } from "../callers.ts";
import type { RegistryStore } from "../store_deps.ts";
import * as store from "./store.ts";

export async function createInvite(deps: RegistryStore, { body, caller }: WithBody<CreateInviteBody>): Promise<Answer> {
  const { invite, code } = await store.createInvite(deps, caller, body.expiresAt);
  return json({ invite: pick(CreateInviteAnswer.shape.invite, { ...invite, code }) }, 201);
}

export async function redeemInvite(
  deps: RegistryStore,
  { body, exchange }: WithBody<RedeemInviteBody, null>,
): Promise<Answer> {
  const { human, key } = await store.redeemInvite(deps, body, exchange.requestId);
  return json<RedeemInviteAnswer>({
    human: pick(Human, human),
    apiKey: pick(NewApiKey, { ...key.record, token: key.token }),
    proxyUrl: deps.config.proxyUrl,
  }, 201);
}

export async function listInvites(deps: RegistryStore, { query }: WithQuery<PageQuery>): Promise<Answer> {
  const now = deps.clock.now();
  const { items, nextCursor } = await store.listInvites(deps, query);
  const invites = items.map((invite) => pick(Invite, { ...invite, status: store.inviteStatus(invite, now) }));
  return json({ invites, pagination: { limit: query.limit, nextCursor } });
}

export const deleteInvite = doneById(store.deleteInvite);
