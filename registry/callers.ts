/** The callers that the authenticators of the registry return, and the inputs that handlers get with them. */
import type { ApiKeyRecord, HumanRecord } from "./schema/records.ts";
import type { IdPath } from "../shared/protocol/api/fields.ts";
import { type Answer, type Input, noContent } from "../shared/server/http/route.ts";

/** A person who asks for a change, and the request with which they ask. */
export interface Asker<H = HumanRecord> {
  human: H;
  requestId: string;
  /** The API key of the request or of its console session; absent when an agent, an invite or the host asks. */
  key?: ApiKeyRecord;
}

export interface ApiKeyCaller extends Asker {
  key: ApiKeyRecord;
}

export type WithBody<B, C = ApiKeyCaller> = Input<undefined, undefined, B, C>;
export type WithQuery<Q> = Input<undefined, Q, undefined, ApiKeyCaller>;
export type WithId<B = undefined> = Input<IdPath, undefined, B, ApiKeyCaller>;

/** Returns the handler that does `work` for the record whose ID is in the path, and answers without a body. */
export function doneById<D>(work: (deps: D, by: ApiKeyCaller, id: string) => Promise<void>) {
  return async (deps: D, { params, caller }: WithId): Promise<Answer> => {
    await work(deps, caller, params.id);
    return noContent();
  };
}

/** An agent that has proved possession of the key in its AIT. */
export interface ProvenAgent {
  agentId: string;
  agentDid: string;
  aitJti: string;
  /** `X-Svc-Timestamp`, Unix seconds. */
  timestamp: number;
}
