/** What an authenticator knows of a caller. */
import type { ApiKeyRecord, HumanRecord } from "./schema/records.ts";
import type { ServiceScope } from "../shared/protocol/api/services.ts";

/** A human with an API key. */
export interface ApiKeyCaller {
  human: HumanRecord;
  key: ApiKeyRecord;
}

/** An internal service, or this very process. */
export interface ServiceCaller {
  id: string;
  scopes: readonly ServiceScope[];
}

/** An agent that has shown its AIT and the key that belongs to it. */
export interface ProvenAgent {
  agentId: string;
  agentDid: string;
  aitJti: string;
  /** `X-Svc-Timestamp`, Unix seconds. */
  timestamp: number;
}
