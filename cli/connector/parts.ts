/** What the parts of a connector share. Each part adds what only it needs. */
import type { Clock } from "../../shared/clock.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import type { Random } from "../../shared/random.ts";
import type { AgentCredentials } from "../link/agent_credentials.ts";
import type { LoopGuard } from "../link/loop_guard.ts";
import type { PeerProxies } from "../link/peer_proxies.ts";
import type { ProxyCaller } from "../link/proxy_caller.ts";
import type { EmitEvent } from "./events.ts";
import type { PeerBook } from "./peers/peer_book.ts";
import type { RegistryTrust } from "./registry_trust.ts";
import type { ConnectorStore } from "./store/store.ts";

export interface Parts {
  clock: Clock;
  random: Random;
  newId: NewId;
  emit: EmitEvent;
  store: ConnectorStore;
  did: string;
  session: AgentCredentials;
  /** Verifies what the agent signs. */
  publicKey: string;
  /** The agent's own proxy. */
  proxy: ProxyCaller;
  proxies: PeerProxies;
  peers: PeerBook;
  trust: RegistryTrust;
  guard: LoopGuard;
  strict: boolean;
  /** Reads the peers from the proxy. Resolves to whether they were read; never rejects. */
  readPeers(): Promise<boolean>;
  /** True once the connector has ended: what fails then is not reported. */
  isOver(): boolean;
}
