/**
 * The agent's peers in memory and on disk. The connector reads the file once, because no other process writes it while
 * the connector runs. Changes are made one after the other, and each is on disk when its promise resolves.
 */
import { aliasesOf, type Peers } from "./peers.ts";

export class PeerBook {
  #aliases: ReadonlyMap<string, string>;
  #changing: Promise<unknown> = Promise.resolve();

  /** @param write writes the file, in which the peers are already */
  constructor(private peers: Peers, private readonly write: (peers: Peers) => Promise<void>) {
    this.#aliases = aliasesOf(peers);
  }

  /** Alias → peer, as on disk. */
  get all(): Peers {
    return this.peers;
  }

  /** The alias of a peer, also of one whose pair has ended; `null` for a stranger. */
  aliasOf(did: string): string | null {
    return this.#aliases.get(did) ?? null;
  }

  /** The peer with a DID; `null` for a stranger. */
  of(did: string): Peers[string] | null {
    return this.peers[this.aliasOf(did) ?? ""] ?? null;
  }

  /** Whether this agent has blocked a peer: nothing is sent to it, and its messages are refused. */
  isBlocked(did: string): boolean {
    return this.of(did)?.blocked === true;
  }

  /** The key to which payloads for a peer are sealed (D-152): one that a ticket proved; `null` for any other agent. */
  sealTo(did: string): string | null {
    const { how, key = null } = this.of(did) ?? {};
    return how === "ticket" ? key : null;
  }

  /** Changes the peers, after the changes before it. A function that returns the same object writes nothing. */
  async change(next: (peers: Peers) => Peers): Promise<void> {
    const changing = this.#changing.then(async () => {
      const peers = next(this.peers);
      if (peers === this.peers) return;
      await this.write(peers);
      this.peers = peers;
      this.#aliases = aliasesOf(peers);
    });
    this.#changing = changing.catch(() => {});
    await changing;
  }

  /** Resolves when no change is under way. Never rejects. */
  async settled(): Promise<void> {
    await this.#changing;
  }
}
