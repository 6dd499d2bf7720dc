/** Bytes of a terminal as keys and pasted texts. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { KeyDecoder, type KeyInput } from "../../../cli/terminal/key_decoder.ts";

const START = "\x1b[200~", END = "\x1b[201~";
const key = (key: string): KeyInput => ({ kind: "key", key });
const paste = (text: string | null): KeyInput => ({ kind: "paste", text });
const bytes = (text: string) => new TextEncoder().encode(text);

/** The inputs of chunks of text, and whether something is incomplete afterwards. */
function decoded(...chunks: string[]): [KeyInput[], boolean] {
  const decoder = new KeyDecoder(2_048);
  return [chunks.flatMap((chunk) => decoder.push(bytes(chunk))), decoder.isIncomplete];
}

Deno.test("the decoder reads keys and pastes, and ignores control characters and other sequences", async (t) => {
  const cases: [string[], KeyInput[], boolean?][] = [
    [["p"], [key("p")]],
    [["y\r"], [key("y"), key("Enter")]],
    [["\r", "\n", "\t", "\x04", "\x7f"], [key("Enter"), key("Enter"), key("Tab"), key("Backspace")]],
    [["\x1b[D", "\x1bOC", "\x1b[3~", "\x01", "\x17"], [
      key("Left"),
      key("Right"),
      key("Delete"),
      key("Home"),
      key("Ctrl-W"),
    ]],
    [["é"], [key("é")]],
    [["\x1b[A", "\x1b[15~", "\x1bOP", "q"], [key("Up"), key("q")]],
    [["\x1by"], []],
    [["\x1b"], [], true],
    [["\x1b", "[A", "l"], [key("Up"), key("l")]],
    [[`${START}svc${END}`], [paste("svc")]],
    [[`${START}a\r\nb${END}y`], [paste("a\r\nb"), key("y")]],
    [[`${START}a`, "b", `c${END}`], [paste("abc")]],
    [[`${START}p`], [], true],
    [[`${START}a\x1b[200~\x1b[Ab${END}`], [paste("a\x1b[200~\x1b[Ab")]],
    [[`${START}${END}`, `${START}x${END}`], [paste(""), paste("x")]],
    // Without bracketed paste a pasted text arrives at once.
    [["svcpair1_pq"], [paste("svcpair1_pq")]],
    [["pq"], [paste("pq")]],
    // A slow line joins what a person types.
    [["12r", "1", "b"], [key("1"), key("2"), key("r"), key("1"), key("b")]],
    [["12rq"], [paste("12rq")]],
    [["prot\x7f\x7f\x01x"], [paste("prot"), key("Backspace"), key("Backspace"), key("Home"), key("x")]],
    [[`${START}${"x".repeat(2048)}${END}`], [paste("x".repeat(2048))]],
    [[`${START}${"x".repeat(2049)}${END}`, "l"], [paste(null), key("l")]],
    [["x".repeat(2049)], [paste(null)]],
  ];
  for (const [chunks, inputs, isIncomplete = false] of cases) {
    await t.step(
      JSON.stringify(chunks.join("|").slice(0, 60)),
      () => assertEquals(decoded(...chunks), [inputs, isIncomplete]),
    );
  }
});

Deno.test("a bracketed paste has the same text for every cut into chunks, and no key comes out of it", () => {
  const text = fc.string({ maxLength: 300, unit: "grapheme" }).filter((text) => !text.includes("\x1b[201~"));
  fc.assert(fc.property(text, fc.array(fc.nat({ max: 400 }), { maxLength: 8 }), (text, cuts) => {
    const all = bytes(START + text + END);
    const at = [...new Set([...cuts.map((cut) => cut % all.length), all.length])].sort((x, y) => x - y);
    const decoder = new KeyDecoder(2_048);
    const found = at.flatMap((end, i) => decoder.push(all.subarray(at[i - 1] ?? 0, end)));
    assertEquals(found, [paste(text)]);
  }));
});

Deno.test("a paste without an end keeps a bounded text, and a reset forgets it", () => {
  const decoder = new KeyDecoder(2_048);
  decoder.push(bytes(START));
  // 8 MiB.
  for (let n = 0; n < 2_000; n++) assertEquals(decoder.push(bytes("x".repeat(4096))), []);
  assertEquals(decoder.push(bytes(`${END}q`)), [paste(null), key("q")]);
  decoder.push(bytes(`${START}p`));
  decoder.reset();
  assertEquals([decoder.push(bytes("q")), decoder.isIncomplete], [[key("q")], false]);
});

Deno.test("a sequence without an end is dropped after 32 characters", () => {
  assertEquals(decoded(`\x1b[${"0;".repeat(40)}`, "q"), [[key("q")], false]);
});
