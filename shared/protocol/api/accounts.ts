/** Wire bodies of humans, API keys and the bootstrap (D-33 to D-35). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { ActiveOrRevoked, DisplayName, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";

const human = z.object({
  id: Ulid,
  did: HumanDid,
  displayName: z.string(),
  role: z.enum(["user", "admin"]),
  status: z.literal("active"),
});

/** A human account. */
export interface Human {
  id: string;
  did: string;
  displayName: string;
  role: "user" | "admin";
  status: "active";
}
/** Shape of `Human`. */
export const Human: Shape<Human> = human;

/** A new API key; `token` is shown this once. */
export interface NewApiKey {
  id: string;
  name: string;
  token: string;
}
/** Shape of `NewApiKey`. */
export const NewApiKey: Shape<NewApiKey> = z.object({ id: Ulid, name: z.string(), token: z.string() });

/** Body of `POST /v1/admin/bootstrap`. */
export interface BootstrapBody {
  displayName: string;
  apiKeyName: string;
}
/** Shape of `BootstrapBody`. */
export const BootstrapBody: Shape<BootstrapBody> = z.object({
  displayName: DisplayName.default("Admin"),
  apiKeyName: DisplayName.default("bootstrap-admin"),
});

/** Answer of `POST /v1/admin/bootstrap`; both secrets are shown this once. */
export interface BootstrapAnswer {
  human: Human;
  apiKey: NewApiKey;
  internalService: {
    id: string;
    name: string;
    secret: string;
  };
}
/** Shape of `BootstrapAnswer`. */
export const BootstrapAnswer: Shape<BootstrapAnswer> = z.object({
  human: Human,
  apiKey: NewApiKey,
  internalService: z.object({ id: Ulid, name: z.string(), secret: z.string() }),
});

/** Answer of `GET /v1/me`. */
export interface AccountProfile {
  human: {
    id: string;
    did: string;
    displayName: string;
    role: "user" | "admin";
    status: "active";
    createdAt: string;
  };
  apiKey: {
    id: string;
    name: string;
  };
}
/** Shape of `Profile`. */
export const AccountProfile: Shape<AccountProfile> = z.object({
  human: human.extend({ createdAt: IsoTime }),
  apiKey: z.object({ id: Ulid, name: z.string() }),
});

const apiKey = z.object({
  id: Ulid,
  name: z.string(),
  status: ActiveOrRevoked,
  createdAt: IsoTime,
  lastUsedAt: IsoTime.nullable(),
});

/** An API key as it is listed. */
export interface ApiKey {
  id: string;
  name: string;
  status: "active" | "revoked";
  createdAt: string;
  lastUsedAt: string | null;
}
/** Shape of `ApiKey`. */
export const ApiKey: Shape<ApiKey> = apiKey;

/** Body of `POST /v1/me/api-keys`. */
export interface CreateApiKeyBody {
  name: string;
}
/** Shape of `CreateApiKeyBody`. */
export const CreateApiKeyBody: Shape<CreateApiKeyBody> = z.object({ name: DisplayName.default("api-key") });

/** Path of `/v1/me/api-keys/:id`. */
export interface ApiKeyPath {
  id: string;
}
/** Shape of `ApiKeyPath`. */
export const ApiKeyPath: Shape<ApiKeyPath> = z.object({ id: Ulid });

/** Answer of `POST /v1/me/api-keys`; the token is shown this once. */
export interface CreateApiKeyAnswer {
  apiKey: {
    id: string;
    name: string;
    status: "active" | "revoked";
    createdAt: string;
    lastUsedAt: string | null;
    token: string;
  };
}
/** Shape of `CreateApiKeyAnswer`. */
export const CreateApiKeyAnswer: Shape<CreateApiKeyAnswer> = z.object({ apiKey: apiKey.extend({ token: z.string() }) });

/** Answer of `GET /v1/me/api-keys`, newest first. */
export interface ApiKeyList {
  apiKeys: ApiKey[];
  pagination: Pagination;
}
/** Shape of `ApiKeyList`. */
export const ApiKeyList: Shape<ApiKeyList> = z.object({ apiKeys: z.array(ApiKey), pagination: Pagination });
