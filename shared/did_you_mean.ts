/** A shorter word begins too many others to mean one of them. */
const BEGINNING_MIN = 3;

/**
 * Returns the only known word that begins so, else the one that is most similar; `null` when more than about a third of
 * the letters differ. By letters alone, `offline` would be taken for `online` beside `offline-for`.
 */
export function nearest(word: string, known: Iterable<string>): string | null {
  const words = [...new Set(known)], start = word.toLowerCase();
  const [begun, second] = words.filter((candidate) => candidate.toLowerCase().startsWith(start));
  if (word.length >= BEGINNING_MIN && begun !== undefined && second === undefined) return begun;
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of words) {
    const distance = editDistance(start, candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Returns ` Did you mean x?`, or an empty text when no word is similar. */
export function didYouMean(word: string, known: Iterable<string>, prefix = ""): string {
  const best = nearest(word, known);
  return best === null ? "" : ` Did you mean ${prefix}${best}?`;
}

/** Returns the number of insertions, deletions, replacements and swaps of neighbours between two words. */
function editDistance(a: string, b: string): number {
  if (a.length > 64 || b.length > 64) return Infinity;
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number) => rows[i]?.[j] ?? Infinity;
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      const swap = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(i - 2, j - 2) + 1 : Infinity;
      row[j] = Math.min(at(i - 1, j) + 1, (row[j - 1] ?? 0) + 1, at(i - 1, j - 1) + (same ? 0 : 1), swap);
    }
  }
  return at(a.length, b.length);
}
