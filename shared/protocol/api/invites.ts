/** Request and response bodies of invites. */
import * as z from "zod";
import { Human, NewApiKey } from "./accounts.ts";
import { Chars43, DisplayName, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";
import { LIMITS } from "../limits.ts";

/** The registry also checks that `expiresAt` is in the future. */
export type CreateInviteBody = z.output<typeof CreateInviteBody>;
export const CreateInviteBody = z.object({
  /** `null` if it does not expire. */
  expiresAt: IsoTime.nullable().default(null),
});

/** The code is shown only once. */
export type CreateInviteAnswer = z.output<typeof CreateInviteAnswer>;
export const CreateInviteAnswer = z.object({
  invite: z.object({ id: Ulid, code: z.string(), expiresAt: IsoTime.nullable(), createdAt: IsoTime }),
});

export type RedeemInviteBody = z.output<typeof RedeemInviteBody>;
export const RedeemInviteBody = z.object({
  code: z.string().min(1).max(LIMITS.inviteCodeLength),
  displayName: DisplayName.default("User"),
  apiKeyName: DisplayName.default("invite"),
  /** Random. The same code with the same secret gets the same answer again until the API key is used (D-37). */
  retrySecret: Chars43.optional(),
});

/** The API key is shown only once. */
export type RedeemInviteAnswer = z.output<typeof RedeemInviteAnswer>;
export const RedeemInviteAnswer = z.object({
  human: Human,
  apiKey: NewApiKey,
  proxyUrl: z.string(),
});

export type Invite = z.output<typeof Invite>;
export const Invite = z.object({
  id: Ulid,
  status: z.enum(["unused", "redeemed", "expired"]),
  /** `null` if it does not expire. */
  expiresAt: IsoTime.nullable(),
  createdAt: IsoTime,
  /** `null` before the invite is redeemed. */
  redeemedAt: IsoTime.nullable(),
  /** DID of the person whose account the invite made; `null` before. */
  redeemedBy: HumanDid.nullable(),
});

/** Newest first. */
export type InviteList = z.output<typeof InviteList>;
export const InviteList = z.object({ invites: z.array(Invite), pagination: Pagination });
