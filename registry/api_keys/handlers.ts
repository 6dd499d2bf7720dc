/** HTTP handlers of the caller's own API keys. A token is shown once, because only its digest is stored. */
import { ApiKey, type CreateApiKeyBody } from "../../shared/protocol/api/accounts.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { type Answer, json, pick } from "../../shared/server/http/route.ts";
import { doneById, type WithBody, type WithQuery } from "../callers.ts";
import type { RegistryStore } from "../store_deps.ts";
import * as store from "./store.ts";

export async function createApiKey(deps: RegistryStore, { body, caller }: WithBody<CreateApiKeyBody>): Promise<Answer> {
  const { record, token } = await store.createApiKey(deps, caller, body.name);
  return json({ apiKey: { ...pick(ApiKey, record), token } }, 201);
}

export async function listApiKeys(deps: RegistryStore, { query, caller }: WithQuery<PageQuery>): Promise<Answer> {
  const { items, nextCursor } = await store.listApiKeys(deps, caller.human.id, query);
  return json({ apiKeys: items.map((key) => pick(ApiKey, key)), pagination: { limit: query.limit, nextCursor } });
}

export const revokeApiKey = doneById(store.revokeApiKey);
