/** Request and response bodies of humans, API keys and the bootstrap. */
import * as z from "zod";
import { ActiveOrRevoked, DisplayName, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";

export type Human = z.output<typeof Human>;
export const Human = z.object({
  id: Ulid,
  did: HumanDid,
  displayName: z.string(),
  role: z.enum(["user", "admin"]),
  /** The API keys of a suspended person are refused. */
  status: z.enum(["active", "suspended"]),
});

/** A new API key; `token` is shown only once. */
export const NewApiKey = z.object({ id: Ulid, name: z.string(), token: z.string() });

export type BootstrapBody = z.output<typeof BootstrapBody>;
export const BootstrapBody = z.object({
  displayName: DisplayName.default("Admin"),
  apiKeyName: DisplayName.default("bootstrap-admin"),
});

/** Both secrets are shown only once. */
export type BootstrapAnswer = z.output<typeof BootstrapAnswer>;
export const BootstrapAnswer = z.object({
  human: Human,
  apiKey: NewApiKey,
  internalService: z.object({ id: Ulid, name: z.string(), secret: z.string() }),
});

export type AccountProfile = z.output<typeof AccountProfile>;
export const AccountProfile = z.object({
  human: Human.extend({ createdAt: IsoTime }),
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

export type CreateApiKeyBody = z.output<typeof CreateApiKeyBody>;
export const CreateApiKeyBody = z.object({ name: DisplayName.default("api-key") });

/** The token is shown only once. */
export type CreateApiKeyAnswer = z.output<typeof CreateApiKeyAnswer>;
export const CreateApiKeyAnswer = z.object({ apiKey: ApiKey.extend({ token: z.string() }) });

/** Newest first. */
export type ApiKeyList = z.output<typeof ApiKeyList>;
export const ApiKeyList = z.object({ apiKeys: z.array(ApiKey), pagination: Pagination });
