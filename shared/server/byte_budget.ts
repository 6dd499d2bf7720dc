/**
 * Bounds the bytes that are held at one time, per party and in total, because one party could otherwise fill the memory
 * of the process. What does not fit is refused at once, without a wait.
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
   * Takes bytes for a party. Returns a function that releases them, or `null` when they would exceed a limit. A second
   * call of that function changes nothing.
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
