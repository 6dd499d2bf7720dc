/** HTTP handlers of internal services: their management and the ownership query. */
import type * as z from "zod";
import {
  type CreateServiceBody,
  InternalService,
  type Ownership,
  type OwnershipBody,
  type ServicePath,
} from "../../shared/protocol/api/services.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { type Answer, type Input, json, noContent, pick } from "../../shared/server/http/route.ts";
import type { StoreDeps } from "../../shared/server/store/open_store.ts";
import { findAgent } from "../agents/store.ts";
import type { ApiKeyCaller, ServiceCaller } from "../callers.ts";
import { findSession } from "../sessions/store.ts";
import { sessionState } from "../sessions/session_rules.ts";
import * as store from "./store.ts";

export async function createService(
  deps: store.ServiceStoreDeps,
  { body, caller, exchange }: Input<undefined, undefined, z.output<typeof CreateServiceBody>, ApiKeyCaller>,
): Promise<Answer> {
  return shown(await store.createService(deps, caller.human, body, exchange.requestId), 201);
}

export async function listServices(
  deps: StoreDeps,
  { query }: Input<undefined, z.output<typeof PageQuery>, undefined, ApiKeyCaller>,
): Promise<Answer> {
  const { items, nextCursor } = await store.listServices(deps, query);
  return json({
    internalServices: items.map((record) => pick(InternalService, record)),
    pagination: { limit: query.limit, nextCursor },
  });
}

export async function rotateService(
  deps: store.ServiceStoreDeps,
  { params, caller, exchange }: Input<z.output<typeof ServicePath>, undefined, undefined, ApiKeyCaller>,
): Promise<Answer> {
  return shown(await store.rotateService(deps, caller.human, params.id, exchange.requestId), 200);
}

export async function deleteService(
  deps: store.ServiceStoreDeps,
  { params, caller, exchange }: Input<z.output<typeof ServicePath>, undefined, undefined, ApiKeyCaller>,
): Promise<Answer> {
  await store.deleteService(deps, caller.human, params.id, exchange.requestId);
  return noContent();
}

export async function agentOwnership(
  deps: StoreDeps,
  { body }: Input<undefined, undefined, z.output<typeof OwnershipBody>, ServiceCaller>,
): Promise<Answer> {
  const id = parseDid(body.agentDid)?.id ?? "";
  const [agent, session] = await Promise.all([findAgent(deps, id), findSession(deps, id)]);
  const known = agent?.did === body.agentDid ? agent : null;
  const response: Ownership = {
    ownsAgent: known?.ownerDid === body.ownerDid,
    agentStatus: known?.status ?? null,
    session: known && session ? sessionState(session, deps.clock.now()) : null,
  };
  return json(response);
}

function shown({ record, secret }: store.IssuedService, status: number): Answer {
  return json({ internalService: { ...pick(InternalService, record), secret } }, status);
}
