/** Wire bodies of humans, API keys and the bootstrap (D-33 to D-35). */
import * as z from "zod";
import { ActiveOrRevoked, DisplayName, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";

/** A human account. */
export const Human = z.object({
  id: Ulid,
  did: HumanDid,
  displayName: z.string(),
  role: z.enum(["user", "admin"]),
  status: z.literal("active"),
});
export type Human = z.infer<typeof Human>;

/** A new API key; `token` is shown this once. */
export const NewApiKey = z.object({ id: Ulid, name: z.string(), token: z.string() });
export type NewApiKey = z.infer<typeof NewApiKey>;

/** Body of `POST /v1/admin/bootstrap`. */
export const BootstrapBody = z.object({
  displayName: DisplayName.default("Admin"),
  apiKeyName: DisplayName.default("bootstrap-admin"),
});

/** Answer of `POST /v1/admin/bootstrap`; both secrets are shown this once. */
export const BootstrapAnswer = z.object({
  human: Human,
  apiKey: NewApiKey,
  internalService: z.object({ id: Ulid, name: z.string(), secret: z.string() }),
});
export type BootstrapAnswer = z.infer<typeof BootstrapAnswer>;

/** Answer of `GET /v1/me`. */
export const Profile = z.object({
  human: Human.extend({ createdAt: IsoTime }),
  apiKey: z.object({ id: Ulid, name: z.string() }),
});
export type Profile = z.infer<typeof Profile>;

/** An API key as it is listed. */
export const ApiKey = z.object({
  id: Ulid,
  name: z.string(),
  status: ActiveOrRevoked,
  createdAt: IsoTime,
  lastUsedAt: IsoTime.nullable(),
});
export type ApiKey = z.infer<typeof ApiKey>;

/** Body of `POST /v1/me/api-keys`. */
export const CreateApiKeyBody = z.object({ name: DisplayName.default("api-key") });

/** Path of `/v1/me/api-keys/:id`. */
export const ApiKeyPath = z.object({ id: Ulid });

/** Answer of `POST /v1/me/api-keys`; the token is shown this once. */
export const CreateApiKeyAnswer = z.object({ apiKey: ApiKey.extend({ token: z.string() }) });
export type CreateApiKeyAnswer = z.infer<typeof CreateApiKeyAnswer>;

/** Answer of `GET /v1/me/api-keys`, newest first. */
export const ApiKeyList = z.object({ apiKeys: z.array(ApiKey), pagination: Pagination });
export type ApiKeyList = z.infer<typeof ApiKeyList>;
