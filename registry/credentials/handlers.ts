/**
 * HTTP of the caller's own API keys (D-35).
 */
import type * as z from "zod";
import type { ApiKeyPath, CreateApiKeyBody } from "../../shared/protocol/api/accounts.ts";
import { type Input, json, noContent } from "../../shared/server/route.ts";
import type { ApiKeyCaller } from "../auth.ts";
import type { RegistryDeps } from "../deps.ts";
import * as store from "./store.ts";

export async function createApiKey(
  deps: RegistryDeps,
  { body, caller, exchange }: Input<undefined, undefined, z.output<typeof CreateApiKeyBody>, ApiKeyCaller>,
): Promise<Response> {
  const { record, token } = await store.createApiKey(deps, caller.human, body.name, exchange.requestId);
  return json({ apiKey: { ...store.apiKeyView(record), token } }, 201);
}

export async function listApiKeys(
  deps: RegistryDeps,
  { caller }: Input<undefined, undefined, undefined, ApiKeyCaller>,
): Promise<Response> {
  const keys = await store.listApiKeys(deps, caller.human.id);
  return json({ apiKeys: keys.map(store.apiKeyView) });
}

export async function revokeApiKey(
  deps: RegistryDeps,
  { params, caller, exchange }: Input<z.output<typeof ApiKeyPath>, undefined, undefined, ApiKeyCaller>,
): Promise<Response> {
  await store.revokeApiKey(deps, caller.human, params.id, exchange.requestId);
  return noContent();
}
