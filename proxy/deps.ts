/** All dependencies of the proxy's handlers. `app.ts` builds them. Only `app.ts` and `routes.ts` import this type. */
import type { Kv } from "../shared/server/kv.ts";
import type { AccessTokenCheck } from "../shared/server/store/access_check.ts";
import type { AppDeps } from "../shared/server/http/app.ts";
import type { ApiDocs } from "../shared/server/http/api_docs.ts";
import type { Changes } from "../shared/server/store/changes.ts";
import type { GroupCommit, Update } from "../shared/server/store/group_commit.ts";
import type { StoreCount } from "../shared/server/store/store_count.ts";
import type { StoreReserve } from "../shared/server/store/store_reserve.ts";
import type { StoreProbe } from "../shared/server/store/store_probe.ts";
import type { BatchedReads } from "../shared/server/store/batched_reads.ts";
import type { Random } from "../shared/random.ts";
import type { RelayCounts } from "./admin/overview.ts";
import type { Refusals } from "./admin/refusals.ts";
import type { RelaySeries } from "./admin/series.ts";
import type { AitCache } from "./admission/ait_cache.ts";
import type { CrlCache } from "./admission/crl_cache.ts";
import type { BadProofLimiter } from "./admission/bad_proof_limiter.ts";
import type { KeyCache } from "./admission/key_cache.ts";
import type { ProxyConfig } from "./config.ts";
import type { Senders } from "./message/sender.ts";
import type { PreconditionFailed, Standings } from "./admission/standing.ts";
import type { OwnerBudgets } from "./owner_budgets.ts";
import type { RegistryClient } from "./registry_client.ts";
import type { InstanceInbox } from "./relay/instance_inbox.ts";
import type { InstanceLeases } from "./relay/instance_leases.ts";
import type { PresenceStore } from "./relay/presence.ts";
import type { RecipientReturn } from "./relay/recipient_return.ts";
import type { UpgradeWebSocket } from "./relay/connect.ts";
import type { Deliveries } from "./relay/deliveries.ts";
import type { MessageForwarder } from "./relay/message_forwarder.ts";
import type { MailboxDelivery } from "./relay/mailbox_delivery.ts";
import type { InFlightBudget } from "./relay/in_flight_budget.ts";
import type { ConnectedAgents } from "./relay/connected_agents.ts";
import type { Mailbox } from "./relay/mailbox.ts";
import type { Revalidation } from "./relay/revalidation.ts";

export interface ProxyDeps extends AppDeps {
  kv: Kv;
  random: Random;
  config: ProxyConfig;
  documents: ApiDocs;
  /** Origins that a proof may name. The first one is the public origin. */
  origins: readonly string[];
  registry: RegistryClient;
  /** Returns the preconditions of a valid access token, or `null` for an invalid one (D-63). */
  access(claim: AccessTokenCheck): Promise<readonly Update<PreconditionFailed>[] | null>;
  /** True when `access()` only reads records, so that it may begin before its check. */
  readsAccess: boolean;
  keys: KeyCache;
  crl: CrlCache;
  aits: AitCache;
  guard: BadProofLimiter;
  commits: GroupCommit;
  changes: Changes;
  probe: StoreProbe;
  reads: BatchedReads;
  senders: Senders;
  standings: Standings;
  owners: OwnerBudgets;
  held: InFlightBudget;
  connectedAgents: ConnectedAgents;
  deliveries: Deliveries;
  mailbox: Mailbox;
  mailboxDelivery: MailboxDelivery;
  leases: InstanceLeases;
  presence: PresenceStore;
  returns: RecipientReturn;
  inbox: InstanceInbox;
  forwarder: MessageForwarder;
  revalidation: Revalidation;
  refusals: Refusals;
  series: RelaySeries;
  counts: StoreCount<RelayCounts>;
  reserve: StoreReserve;
  storeBytes?(): number | null;
  residentBytes?(): number;
  upgrade: UpgradeWebSocket;
}
