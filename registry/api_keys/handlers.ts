/**
 * HTTP handlers of the caller's own API keys (D-35).
 */
import type * as z from "zod";
import type { ApiKeyPath, CreateApiKeyBody } from "../../shared/protocol/api/accounts.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { type Input, json, noContent } from "../../shared/server/http/route.ts";
import type { ApiKeyCaller } from "../callers.ts";
import * as store from "./store.ts";
import type { ApiKeyDeps } from "./store.ts";

export async function createApiKey(
  deps: ApiKeyDeps,
  { body, caller, exchange }: Input<undefined, undefined, z.output<typeof CreateApiKeyBody>, ApiKeyCaller>,
): Promise<Response> {
  const { record, token } = await store.createApiKey(deps, caller.human, body.name, exchange.requestId);
  return json({ apiKey: { ...store.apiKeyView(record), token } }, 201);
}

export async function listApiKeys(
  deps: ApiKeyDeps,
  { query, caller }: Input<undefined, z.output<typeof PageQuery>, undefined, ApiKeyCaller>,
): Promise<Response> {
  const { items, nextCursor } = await store.listApiKeys(deps, caller.human.id, query);
  return json({ apiKeys: items.map(store.apiKeyView), pagination: { limit: query.limit, nextCursor } });
}

export async function revokeApiKey(
  deps: ApiKeyDeps,
  { params, caller, exchange }: Input<z.output<typeof ApiKeyPath>, undefined, undefined, ApiKeyCaller>,
): Promise<Response> {
  await store.revokeApiKey(deps, caller.human, params.id, exchange.requestId);
  return noContent();
}
