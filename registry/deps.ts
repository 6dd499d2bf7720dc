/**
 * All dependencies of the registry, built once in `app.ts`. Only `app.ts` and `routes.ts` import this type, because
 * one wide type would tie most files together in a cycle of imports; every other file names the members that it uses.
 */
import type { Kv } from "../shared/server/kv.ts";
import type { AdminCounts } from "../shared/protocol/api/admin.ts";
import type { AppDeps } from "../shared/server/http/app.ts";
import type { ApiDocs } from "../shared/server/http/api_docs.ts";
import type { GroupCommit } from "../shared/server/store/group_commit.ts";
import type { BatchedReads } from "../shared/server/store/batched_reads.ts";
import type { Changes } from "../shared/server/store/changes.ts";
import type { Nonces } from "../shared/server/nonces.ts";
import type { StoreCount } from "../shared/server/store/store_count.ts";
import type { StoreProbe } from "../shared/server/store/store_probe.ts";
import type { Random } from "../shared/random.ts";
import type { RegistryConfig } from "./config.ts";
import type { CrlPublisher } from "./revocation/crl.ts";
import type { Suspensions } from "./people/suspensions.ts";
import type { Looks } from "./admin_tokens/handlers.ts";
import type { Signing } from "./signing_keys.ts";

export interface RegistryDeps extends AppDeps {
  kv: Kv;
  random: Random;
  config: RegistryConfig;
  documents: ApiDocs;
  /** Authority of the DIDs that this registry issues. */
  authority: string;
  origins: readonly string[];
  signing: Signing;
  crl: CrlPublisher;
  commits: GroupCommit;
  /** The queue of changes that share a record, such as a quota. */
  changes: Changes;
  reads: BatchedReads;
  suspensions: Suspensions;
  counts: StoreCount<AdminCounts>;
  looks: Looks;
  probe: StoreProbe;
  nonces: Nonces;
}
