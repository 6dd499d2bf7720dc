/** Wire bodies of invites (D-36, D-37). */
import * as z from "zod";
import { Human, NewApiKey } from "./accounts.ts";
import { DisplayName, IsoTime, Pagination, Ulid } from "./fields.ts";
import { LIMITS } from "../limits.ts";

/** Body of `POST /v1/invites`. That `expiresAt` lies ahead is judged by the registry's clock. */
export const CreateInviteBody = z.object({ expiresAt: IsoTime.nullable().default(null) });

/** Answer of `POST /v1/invites`; the code is shown this once. */
export const CreateInviteAnswer = z.object({
  invite: z.object({ id: Ulid, code: z.string(), expiresAt: IsoTime.nullable(), createdAt: IsoTime }),
});
export type CreateInviteAnswer = z.infer<typeof CreateInviteAnswer>;

/** Body of `POST /v1/invites/redeem`. */
export const RedeemInviteBody = z.object({
  code: z.string().min(1).max(LIMITS.inviteCodeLength),
  displayName: DisplayName.default("User"),
  apiKeyName: DisplayName.default("invite"),
});

/** Answer of `POST /v1/invites/redeem`; the API key is shown this once. */
export const RedeemInviteAnswer = z.object({ human: Human, apiKey: NewApiKey, proxyUrl: z.string() });
export type RedeemInviteAnswer = z.infer<typeof RedeemInviteAnswer>;

/** An invite as it is listed: never with its code. */
export const Invite = z.object({
  id: Ulid,
  status: z.enum(["unused", "redeemed", "expired"]),
  expiresAt: IsoTime.nullable(),
  createdAt: IsoTime,
  redeemedAt: IsoTime.nullable(),
});
export type Invite = z.infer<typeof Invite>;

/** Answer of `GET /v1/invites`, newest first. */
export const InviteList = z.object({ invites: z.array(Invite), pagination: Pagination });
export type InviteList = z.infer<typeof InviteList>;

/** Path of `/v1/invites/:id`. */
export const InvitePath = z.object({ id: Ulid });
