/**
 * What the registry's handlers work with: built once in `app.ts`, never a global.
 */
import type { AppDeps } from "../shared/server/http/app.ts";
import type { ApiDocs } from "../shared/server/http/api_docs.ts";
import type { GroupCommit } from "../shared/server/store/group_commit.ts";
import type { BatchedReads } from "../shared/server/store/batched_reads.ts";
import type { Changes } from "../shared/server/store/changes.ts";
import type { Nonces } from "../shared/server/nonces.ts";
import type { StoreProbe } from "../shared/server/store/store_probe.ts";
import type { Random } from "../shared/random.ts";
import type { RegistryConfig } from "./config.ts";
import type { CrlPublisher } from "./revocation/crl.ts";
import type { Signing } from "./signing_keys.ts";

export interface RegistryDeps extends AppDeps {
  kv: Deno.Kv;
  random: Random;
  config: RegistryConfig;
  documents: ApiDocs;
  /** Authority of every DID that this registry issues. */
  authority: string;
  /** Origins that a proof may name. */
  origins: readonly string[];
  signing: Signing;
  crl: CrlPublisher;
  commits: GroupCommit;
  /** The queue of changes that share a head or a quota. */
  changes: Changes;
  reads: BatchedReads;
  probe: StoreProbe;
  nonces: Nonces;
}
