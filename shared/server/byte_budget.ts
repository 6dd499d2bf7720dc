/**
 * Bounds the bytes that are held at one time, per party and in total, because one party could otherwise fill the
 * memory of the process. Does not wait, and does not know what the bytes are.
 */

export class ByteBudget {
  readonly #byParty = new Map<string, number>();
  #used = 0;

  constructor(private readonly limits: { total: number; perParty: number }) {}

  get used(): number {
    return this.#used;
  }

  usedBy(party: string): number {
    return this.#byParty.get(party) ?? 0;
  }

  /**
   * Takes bytes for a party. Returns the function that releases them, which is idempotent, or `null` when they exceed a
   * limit.
   *
   * @param options.ignoreTotal true when only the limit of the party applies; the bytes still count in total
   */
  take(party: string, bytes: number, { ignoreTotal = false } = {}): (() => void) | null {
    const { total, perParty } = this.limits;
    if (!ignoreTotal && this.#used + bytes > total || this.usedBy(party) + bytes > perParty) return null;
    this.#add(party, bytes);
    let isHeld = true;
    return () => {
      if (isHeld) this.#add(party, -bytes);
      isHeld = false;
    };
  }

  #add(party: string, bytes: number): void {
    this.#used += bytes;
    const held = this.usedBy(party) + bytes;
    if (held === 0) this.#byParty.delete(party);
    else this.#byParty.set(party, held);
  }
}
