/**
 * The test for a line that is taken for the identity marker: bounded work, and the same results as a fold of the
 * complete line.
 */
import { assert, assertEquals } from "@std/assert";
import { compareNextTo, isQuoted, LINE_END, passesForMarker } from "../../support/identity_marker.ts";
import { numbersFrom } from "../../support/seeded_random.ts";

/** For each letter of the marker, every code point that NFKC or lower case maps to it. */
function spellingsOf(): Map<string, string[]> {
  const spellings = new Map<string, string[]>();
  for (let code = 0; code <= 0x10ffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const char = String.fromCodePoint(code);
    if (LINE_END.test(char)) continue;
    const folded = char.normalize("NFKC").toLowerCase();
    if ("[svc identity]".includes(folded) && folded.length === 1) {
      spellings.set(folded, [...spellings.get(folded) ?? [], char]);
    }
  }
  return spellings;
}

/** Every code point that is invisible, and some that are not. */
function fillersOf(): { invisible: string[]; visible: string[] } {
  const invisible: string[] = [];
  for (let code = 0; code <= 0x10ffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const char = String.fromCodePoint(code);
    if (!LINE_END.test(char) && /[\p{Cc}\p{Default_Ignorable_Code_Point}]/u.test(char)) invisible.push(char);
  }
  return { invisible, visible: [" ", "\u3000", "\u00a0", "\u0301", "x", "\u115f\u0301", "\ud800", "ﬁ", "\ufe64"] };
}

Deno.test("the identity marker is recognised like the complete fold in 2,000 generated spellings", () => {
  const random = numbersFrom(1);
  const pick = (n: number) => Math.floor(random() * n);
  const spellings = spellingsOf();
  const { invisible, visible } = fillersOf();
  let markers = 0;
  for (let i = 0; i < 2_000; i++) {
    const parts: string[] = [];
    for (const letter of "[svc identity]") {
      const choices = spellings.get(letter) ?? [letter];
      parts.push(choices[pick(choices.length)] ?? letter);
      const fillers = pick(3) === 0 ? 1 + pick(i % 100 === 0 ? 200 : 3) : 0;
      for (let n = 0; n < fillers; n++) parts.push(invisible[pick(invisible.length)] ?? "");
      if (pick(80) === 0) parts.push(visible[pick(visible.length)] ?? "");
    }
    const line = [" ".repeat(pick(3)), ...parts, "\u3000".repeat(pick(3))].join("");
    const expected = passesForMarker(line);
    if (expected) markers++;
    assertEquals(isQuoted(line), expected, JSON.stringify(line));
  }
  assert(markers > 400 && markers < 1_998, `${markers} of the spellings pass`);
});

Deno.test("the identity marker is recognised like the complete fold next to every 29th code point", () => {
  compareNextTo(29);
});

Deno.test("the identity marker is recognised behind any number of invisible characters", () => {
  for (const filler of ["\u200b", "\u0001", "\u{e0041}", "\ufe0f", " "]) {
    assert(isQuoted(`${filler.repeat(5_000)}[Svc Identity]${filler.repeat(5_000)}`), JSON.stringify(filler));
  }
});

Deno.test("a line is normalised only when at most 128 units of it remain", () => {
  const { normalize } = String.prototype;
  const lengths: number[] = [];
  String.prototype.normalize = function (this: string, form?: string): string {
    lengths.push(this.length);
    return normalize.call(this, form);
  };
  try {
    for (const unit of ["\u0301", "a\u0323\u0301", "ﷺ", "x"]) {
      for (const length of [128, 129, 240_000]) assert(!isQuoted(unit.repeat(length).slice(0, length)));
    }
  } finally {
    String.prototype.normalize = normalize;
  }
  assertEquals([...new Set(lengths)], [128]);
});
