/** What all files of the registry that read or write records need. A file that needs more names the rest itself. */
import type { RegistryConfig } from "./config.ts";
import type { BatchedReads } from "../shared/server/store/batched_reads.ts";
import type { Changes } from "../shared/server/store/changes.ts";
import type { StoreDeps } from "../shared/server/store/open_store.ts";

export interface RegistryStore extends StoreDeps {
  config: RegistryConfig;
  /** Authority of the DIDs that this registry issues. */
  authority: string;
  reads: BatchedReads;
  /** Runs changes that share a record, such as a quota, one after the other. */
  changes: Changes;
  /** Resolves when a proxy in this process has read the list with a deletion; absent when the proxy runs elsewhere. */
  onDeleted?: (() => Promise<void> | undefined) | undefined;
}
