/** Request and response bodies of humans, API keys and the bootstrap (D-33 to D-35). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { ActiveOrRevoked, DisplayName, HumanDid, IsoTime, Pagination, Ulid } from "./fields.ts";

const human = z.object({
  id: Ulid,
  did: HumanDid,
  displayName: z.string(),
  role: z.enum(["user", "admin"]),
  status: z.enum(["active", "suspended"]),
});

/** A human account. */
export interface Human {
  /** ULID of the record. */
  id: string;
  /** DID of the human. */
  did: string;
  /** Name that is shown to other people. */
  displayName: string;
  /** Role of the account. */
  role: "user" | "admin";
  /** Present status. */
  status: "active" | "suspended";
}
/** Schema of `Human`. */
export const Human: Shape<Human> = human;

/** A new API key; `token` is shown only once. */
export interface NewApiKey {
  /** ULID of the record. */
  id: string;
  /** Name of the API key. */
  name: string;
  /** The secret, shown only in this response. */
  token: string;
}
/** Schema of `NewApiKey`. */
export const NewApiKey: Shape<NewApiKey> = z.object({ id: Ulid, name: z.string(), token: z.string() });

/** Body of `POST /v1/admin/bootstrap`. */
export interface BootstrapBody {
  /** Display name of the admin. */
  displayName: string;
  /** Name of the new API key. */
  apiKeyName: string;
}
/** Schema of `BootstrapBody`. */
export const BootstrapBody: Shape<BootstrapBody> = z.object({
  displayName: DisplayName.default("Admin"),
  apiKeyName: DisplayName.default("bootstrap-admin"),
});

/** Response of `POST /v1/admin/bootstrap`; both secrets are shown only once. */
export interface BootstrapAnswer {
  /** The admin. */
  human: Human;
  /** The API key. */
  apiKey: NewApiKey;
  /** Credential of the proxy. */
  internalService: {
    id: string;
    name: string;
    secret: string;
  };
}
/** Schema of `BootstrapAnswer`. */
export const BootstrapAnswer: Shape<BootstrapAnswer> = z.object({
  human: Human,
  apiKey: NewApiKey,
  internalService: z.object({ id: Ulid, name: z.string(), secret: z.string() }),
});

/** Response of `GET /v1/me`. */
export interface AccountProfile {
  /** The account. */
  human: {
    id: string;
    did: string;
    displayName: string;
    role: "user" | "admin";
    status: "active" | "suspended";
    createdAt: string;
  };
  /** The API key of this request. */
  apiKey: {
    id: string;
    name: string;
  };
}
/** Schema of `AccountProfile`. */
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
  /** ULID of the record. */
  id: string;
  /** Name of the API key. */
  name: string;
  /** Present status. */
  status: "active" | "revoked";
  /** Time of creation, ISO 8601. */
  createdAt: string;
  /** Time of the last use, ISO 8601; `null` before the first use. */
  lastUsedAt: string | null;
}
/** Schema of `ApiKey`. */
export const ApiKey: Shape<ApiKey> = apiKey;

/** Body of `POST /v1/me/api-keys`. */
export interface CreateApiKeyBody {
  /** Name of the new API key. */
  name: string;
}
/** Schema of `CreateApiKeyBody`. */
export const CreateApiKeyBody: Shape<CreateApiKeyBody> = z.object({ name: DisplayName.default("api-key") });

/** Path of `/v1/me/api-keys/:id`. */
export interface ApiKeyPath {
  /** ULID of the record. */
  id: string;
}
/** Schema of `ApiKeyPath`. */
export const ApiKeyPath: Shape<ApiKeyPath> = z.object({ id: Ulid });

/** Response of `POST /v1/me/api-keys`; the token is shown only once. */
export interface CreateApiKeyAnswer {
  /** The API key. */
  apiKey: {
    id: string;
    name: string;
    status: "active" | "revoked";
    createdAt: string;
    lastUsedAt: string | null;
    token: string;
  };
}
/** Schema of `CreateApiKeyAnswer`. */
export const CreateApiKeyAnswer: Shape<CreateApiKeyAnswer> = z.object({ apiKey: apiKey.extend({ token: z.string() }) });

/** Response of `GET /v1/me/api-keys`, newest first. */
export interface ApiKeyList {
  /** One page of API keys. */
  apiKeys: ApiKey[];
  /** Position in the list. */
  pagination: Pagination;
}
/** Schema of `ApiKeyList`. */
export const ApiKeyList: Shape<ApiKeyList> = z.object({ apiKeys: z.array(ApiKey), pagination: Pagination });
