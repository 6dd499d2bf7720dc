/** No text becomes markup, and no character of a text is invisible. */
import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { markup, typed } from "../../../shared/page/html.ts";
import { dayHeading, duration, exactly, when } from "../../../shared/page/times.ts";
import { codePoints } from "../protocol/arbitraries.ts";

Deno.test("a value is escaped in text and in a quoted attribute, also in lists and nested markup", () => {
  const name = `<script>"'&`;
  const inner = markup`<b>${name}</b>`;
  assertEquals(
    markup`<p title="${name}">${[inner, name, 1, null, undefined, false]}</p>`.text,
    '<p title="&#60;script&#62;&#34;&#39;&#38;"><b>&#60;script&#62;&#34;&#39;&#38;</b>&#60;script&#62;&#34;&#39;&#38;1</p>',
  );
});

Deno.test("what is invisible or turns the direction is shown, and a typed value is unchanged", () => {
  assertEquals(
    markup`${"a\u202eb\u200b\u0007\u00ad\u{e0041}\r"}`.text,
    "a\\u{202e}b\\u{200b}\\u{7}\\u{ad}\\u{e0041}\\u{d}",
  );
  assertEquals(markup`${"line\n\tnext"}`.text, "line\n\tnext");
  assertEquals(typed("\u202e<é👩‍💻").text, "\u202e&#60;é👩‍💻");
});

Deno.test("an emoji is unchanged, and what only looks like a part of one is shown", () => {
  for (
    const emoji of [
      "\u26a0\ufe0f",
      "1\ufe0f\u20e3",
      "👨\u200d💻",
      "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    ]
  ) {
    assertEquals(markup`${emoji}`.text, emoji);
  }
  assertEquals(
    markup`${"a\ufe0f \u26a0\ufe0f\ufe0f 👨\u200d 🏴\u{e0067}\u{e007f}"}`.text,
    "a\\u{fe0f} \u26a0\ufe0f\\u{fe0f} 👨\\u{200d} 🏴\\u{e0067}\\u{e007f}",
  );
});

Deno.test("no text leaves a sign of markup or a hidden character behind", () => {
  const unsafe = /[<>"']|&(?!#\d+;)|(?![\t\n])[\p{Cc}\p{Default_Ignorable_Code_Point}]/u;
  fc.assert(fc.property(codePoints, (text) => {
    assert(!unsafe.test(markup`${text}`.text.replace(/\p{RGI_Emoji}/gv, "")));
  }));
});

Deno.test("64 KiB of signs are escaped in time that grows with their number only", () => {
  assertEquals(markup`${"<".repeat(65_536)}`.text.length, 65_536 * 5);
});

Deno.test("times are short, and the whole instant is in the title", () => {
  const now = Date.UTC(2026, 10, 23, 12, 4);
  const short = (ms: number) => when(ms, now).text.replace(/<[^>]*>/g, "");
  assertEquals(
    [now, now - 86_400_000, now - 8 * 86_400_000, now - 400 * 86_400_000, now + 86_400_000].map(short),
    ["12:04", "Sun", "15 Nov", "19 Oct 2025", "24 Nov"],
  );
  assert(when(now, now).text.startsWith('<time datetime="2026-11-23T12:04:00.000Z" title="2026-11-23T12:04:00.000Z">'));
  assertEquals(
    [now, now - 86_400_000].map((ms) => exactly(ms, now).text.replace(/<[^>]*>/g, "")),
    ["12:04:00", "22 Nov, 12:04:00"],
  );
  assertEquals([dayHeading(now, now), dayHeading(now - 86_400_000, now)], ["Today", "Sunday 22 November"]);
  assertEquals(
    [11, 8300, 44_000, 44 * 60_000, 14 * 3_600_000, 6 * 86_400_000].map(duration),
    ["11 ms", "8.3 s", "44 s", "44 min", "14 h", "6 days"],
  );
});
