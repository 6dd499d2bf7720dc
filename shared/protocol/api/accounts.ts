/** Request and response bodies of humans, API keys and the bootstrap. */
import * as z from "zod";
import { ActiveOrRevoked, DisplayName, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";

export type Human = z.output<typeof Human>;
export const Human = z.object({
  id: Ulid,
  did: HumanDid,
  displayName: z.string(),
  role: z.enum(["user", "admin"]),
  status: z.enum(["active", "suspended"]),
});

/** A new API key; `token` is shown only once. */
export type NewApiKey = z.output<typeof NewApiKey>;
export const NewApiKey = z.object({ id: Ulid, name: z.string(), token: z.string() });

/** Body of `POST /v1/admin/bootstrap`. */
export type BootstrapBody = z.output<typeof BootstrapBody>;
export const BootstrapBody = z.object({
  displayName: DisplayName.default("Admin"),
  apiKeyName: DisplayName.default("bootstrap-admin"),
});

/** Response of `POST /v1/admin/bootstrap`; both secrets are shown only once. */
export type BootstrapAnswer = z.output<typeof BootstrapAnswer>;
export const BootstrapAnswer = z.object({
  human: Human,
  apiKey: NewApiKey,
  /** Credential of the proxy. */
  internalService: z.object({ id: Ulid, name: z.string(), secret: z.string() }),
});

/** Response of `GET /v1/me`. */
export type AccountProfile = z.output<typeof AccountProfile>;
export const AccountProfile = z.object({
  human: Human.extend({ createdAt: IsoTime }),
  /** The API key of this request. */
  apiKey: z.object({ id: Ulid, name: z.string() }),
});

export type ApiKey = z.output<typeof ApiKey>;
export const ApiKey = z.object({
  id: Ulid,
  name: z.string(),
  status: ActiveOrRevoked,
  createdAt: IsoTime,
  /** `null` before the first use. */
  lastUsedAt: IsoTime.nullable(),
});

/** Body of `POST /v1/me/api-keys`. */
export type CreateApiKeyBody = z.output<typeof CreateApiKeyBody>;
export const CreateApiKeyBody = z.object({ name: DisplayName.default("api-key") });

/** Path of `/v1/me/api-keys/:id`. */
export type ApiKeyPath = z.output<typeof ApiKeyPath>;
export const ApiKeyPath = z.object({ id: Ulid });

/** Response of `POST /v1/me/api-keys`; the token is shown only once. */
export type CreateApiKeyAnswer = z.output<typeof CreateApiKeyAnswer>;
export const CreateApiKeyAnswer = z.object({ apiKey: ApiKey.extend({ token: z.string() }) });

/** Response of `GET /v1/me/api-keys`, newest first. */
export type ApiKeyList = z.output<typeof ApiKeyList>;
export const ApiKeyList = z.object({ apiKeys: z.array(ApiKey), pagination: Pagination });
