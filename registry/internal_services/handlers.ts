/** HTTP handlers of internal services: their management and the ownership query. */
import {
  type CreateServiceBody,
  InternalService,
  type Ownership,
  type OwnershipBody,
} from "../../shared/protocol/api/services.ts";
import type { PageQuery } from "../../shared/protocol/api/fields.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { type Answer, json, pick } from "../../shared/server/http/route.ts";
import { doneById, type WithBody, type WithId, type WithQuery } from "../callers.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { AgentRecord, ServiceRecord, SessionRecord } from "../schema/records.ts";
import { shownState } from "../sessions/session_rules.ts";
import type { RegistryStore } from "../store_deps.ts";
import { belowCursor, readPage } from "../../shared/server/store/pages.ts";
import * as store from "./store.ts";

export async function createService(
  deps: RegistryStore,
  { body, caller }: WithBody<CreateServiceBody>,
): Promise<Answer> {
  return shown(await store.createService(deps, caller, body), 201);
}

export async function listServices(deps: RegistryStore, { query }: WithQuery<PageQuery>): Promise<Answer> {
  const { items, nextCursor } = await readPage<ServiceRecord>(
    deps.kv,
    belowCursor(KEYS.services(), query.cursor),
    query,
  );
  return json({
    internalServices: items.map((record) => pick(InternalService, record)),
    pagination: { limit: query.limit, nextCursor },
  });
}

export async function rotateService(deps: RegistryStore, { params, caller }: WithId): Promise<Answer> {
  return shown(await store.rotateService(deps, caller, params.id), 200);
}

export const deleteService = doneById(store.deleteService);

export async function agentOwnership(
  { kv, clock }: RegistryStore,
  { body }: WithBody<OwnershipBody, true>,
): Promise<Answer> {
  const id = parseDid(body.agentDid)?.id ?? "";
  const [agent, { value: session }] = await kv.getMany<[AgentRecord, SessionRecord]>([
    KEYS.agent(id),
    KEYS.session(id),
  ]);
  const known = agent.value?.did === body.agentDid ? agent.value : null;
  return json<Ownership>({
    ownsAgent: known?.ownerDid === body.ownerDid,
    agentStatus: known?.status ?? null,
    session: known && session ? shownState(session, clock.now()) : null,
  });
}

function shown({ record, secret }: store.IssuedService, status: number): Answer {
  return json({ internalService: { ...pick(InternalService, record), secret } }, status);
}
