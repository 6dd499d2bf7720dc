/** Counts the revocations of each human while the store is read record by record (D-210). */
import { parseDid } from "../../shared/protocol/did.ts";
import { BoundedMap } from "../../shared/bounded_map.ts";
import type { AgentRecord, RevocationRecord } from "../schema/records.ts";
import { KEYS } from "../schema/kv_keys.ts";

/** Number of cached owners. The cache saves a read for each further revocation of an agent. */
const OWNERS_REMEMBERED = 10_000;
const UNKNOWN = "unknown";

export class RevocationCounts {
  readonly #kv: Deno.Kv;
  readonly #counts = new Map<string, number>();
  readonly #owners = new BoundedMap<string, string>(OWNERS_REMEMBERED);

  constructor(kv: Deno.Kv) {
    this.#kv = kv;
  }

  /** Counts a record if it is a revocation. */
  async count({ key, value }: Deno.KvEntry<unknown>): Promise<void> {
    const [service, kind] = KEYS.revocations();
    if (key[0] !== service || key[1] !== kind) return;
    const owner = await this.#ownerOf((value as RevocationRecord).agentDid);
    this.#counts.set(owner, (this.#counts.get(owner) ?? 0) + 1);
  }

  /** Returns the humans with the most revocations, largest number first. */
  top(most: number): { ownerDid: string; revocations: number }[] {
    return [...this.#counts].sort(([, a], [, b]) => b - a).slice(0, most)
      .map(([ownerDid, revocations]) => ({ ownerDid, revocations }));
  }

  async #ownerOf(agentDid: string): Promise<string> {
    const known = this.#owners.get(agentDid);
    if (known !== undefined) return known;
    const id = parseDid(agentDid)?.id;
    const agent = id === undefined ? null : (await this.#kv.get<AgentRecord>(KEYS.agent(id))).value;
    const owner = agent?.ownerDid ?? UNKNOWN;
    this.#owners.set(agentDid, owner);
    return owner;
  }
}
