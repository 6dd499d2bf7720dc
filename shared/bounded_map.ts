/**
 * A map with a bound. When it is full, a new key removes only the oldest one, because clearing the map would make it
 * forget every client at once.
 */
export class BoundedMap<K, V> extends Map<K, V> {
  /** @param max most entries, at least 1 */
  constructor(private readonly max: number) {
    super();
  }

  /** Sets a key and moves it to the end, so that the key that was set least recently is the first to be removed. */
  override set(key: K, value: V): this {
    if (!this.delete(key) && this.size >= this.max) {
      const oldest = this.keys().next();
      if (!oldest.done) this.delete(oldest.value);
    }
    return super.set(key, value);
  }
}
