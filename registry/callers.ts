/** The callers that the authenticators of the registry return. */
import type { ApiKeyRecord, HumanRecord } from "./schema/records.ts";
import type { ServiceScope } from "../shared/protocol/api/services.ts";

export interface ApiKeyCaller {
  human: HumanRecord;
  key: ApiKeyRecord;
}

/** An internal service, or this process. */
export interface ServiceCaller {
  id: string;
  scopes: readonly ServiceScope[];
}

/** An agent that has proved possession of the key in its AIT. */
export interface ProvenAgent {
  agentId: string;
  agentDid: string;
  aitJti: string;
  /** `X-Svc-Timestamp`, Unix seconds. */
  timestamp: number;
}
