/** Request and response bodies of invites (D-36, D-37). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { Human, NewApiKey } from "./accounts.ts";
import { DisplayName, IsoTime, Pagination, Ulid } from "./fields.ts";
import { LIMITS } from "../limits.ts";

/** Body of `POST /v1/invites`. The registry checks that `expiresAt` is in the future. */
export interface CreateInviteBody {
  /** Time of expiry, ISO 8601; `null` for no expiry. */
  expiresAt: string | null;
}
/** Schema of `CreateInviteBody`. */
export const CreateInviteBody: Shape<CreateInviteBody> = z.object({ expiresAt: IsoTime.nullable().default(null) });

/** Response of `POST /v1/invites`; the code is shown only once. */
export interface CreateInviteAnswer {
  /** The invite, with its code. */
  invite: {
    id: string;
    code: string;
    expiresAt: string | null;
    createdAt: string;
  };
}
/** Schema of `CreateInviteAnswer`. */
export const CreateInviteAnswer: Shape<CreateInviteAnswer> = z.object({
  invite: z.object({ id: Ulid, code: z.string(), expiresAt: IsoTime.nullable(), createdAt: IsoTime }),
});

/** Body of `POST /v1/invites/redeem`. */
export interface RedeemInviteBody {
  /** The invite code. */
  code: string;
  /** Display name of the new account. */
  displayName: string;
  /** Name of the new API key. */
  apiKeyName: string;
}
/** Schema of `RedeemInviteBody`. */
export const RedeemInviteBody: Shape<RedeemInviteBody> = z.object({
  code: z.string().min(1).max(LIMITS.inviteCodeLength),
  displayName: DisplayName.default("User"),
  apiKeyName: DisplayName.default("invite"),
});

/** Response of `POST /v1/invites/redeem`; the API key is shown only once. */
export interface RedeemInviteAnswer {
  /** The new account. */
  human: Human;
  /** The first API key of the account. */
  apiKey: NewApiKey;
  /** Origin of the proxy. */
  proxyUrl: string;
}
/** Schema of `RedeemInviteAnswer`. */
export const RedeemInviteAnswer: Shape<RedeemInviteAnswer> = z.object({
  human: Human,
  apiKey: NewApiKey,
  proxyUrl: z.string(),
});

/** An invite in a list, without its code. */
export interface Invite {
  /** ULID of the record. */
  id: string;
  /** Present status. */
  status: "unused" | "redeemed" | "expired";
  /** Time of expiry, ISO 8601; `null` for no expiry. */
  expiresAt: string | null;
  /** Time of creation, ISO 8601. */
  createdAt: string;
  /** Time of redemption, ISO 8601; `null` before it. */
  redeemedAt: string | null;
}
/** Schema of `Invite`. */
export const Invite: Shape<Invite> = z.object({
  id: Ulid,
  status: z.enum(["unused", "redeemed", "expired"]),
  expiresAt: IsoTime.nullable(),
  createdAt: IsoTime,
  redeemedAt: IsoTime.nullable(),
});

/** Response of `GET /v1/invites`, newest first. */
export interface InviteList {
  /** One page of invites. */
  invites: Invite[];
  /** Position in the list. */
  pagination: Pagination;
}
/** Schema of `InviteList`. */
export const InviteList: Shape<InviteList> = z.object({ invites: z.array(Invite), pagination: Pagination });

/** Path of `/v1/invites/:id`. */
export interface InvitePath {
  /** ULID of the record. */
  id: string;
}
/** Schema of `InvitePath`. */
export const InvitePath: Shape<InvitePath> = z.object({ id: Ulid });
