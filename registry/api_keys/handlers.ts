/** HTTP handlers of the caller's own API keys. A token is shown once, because only its digest is stored. */
import type * as z from "zod";
import { ApiKey, type ApiKeyPath, type CreateApiKeyBody } from "../../shared/protocol/api/accounts.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { type Answer, type Input, json, noContent, pick } from "../../shared/server/http/route.ts";
import type { ApiKeyCaller } from "../callers.ts";
import * as store from "./store.ts";
import type { ApiKeyDeps } from "./store.ts";

export async function createApiKey(
  deps: ApiKeyDeps,
  { body, caller, exchange }: Input<undefined, undefined, z.output<typeof CreateApiKeyBody>, ApiKeyCaller>,
): Promise<Answer> {
  const { record, token } = await store.createApiKey(deps, caller.human, body.name, exchange.requestId);
  return json({ apiKey: { ...pick(ApiKey, record), token } }, 201);
}

export async function listApiKeys(
  deps: ApiKeyDeps,
  { query, caller }: Input<undefined, z.output<typeof PageQuery>, undefined, ApiKeyCaller>,
): Promise<Answer> {
  const { items, nextCursor } = await store.listApiKeys(deps, caller.human.id, query);
  return json({ apiKeys: items.map((key) => pick(ApiKey, key)), pagination: { limit: query.limit, nextCursor } });
}

export async function revokeApiKey(
  deps: ApiKeyDeps,
  { params, caller, exchange }: Input<z.output<typeof ApiKeyPath>, undefined, undefined, ApiKeyCaller>,
): Promise<Answer> {
  await store.revokeApiKey(deps, caller.human, params.id, exchange.requestId);
  return noContent();
}
