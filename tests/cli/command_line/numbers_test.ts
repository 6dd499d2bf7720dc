/** Numbers, times and lists that a person or a file gives: each says what it is in one form, and any other text is refused. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { CliError } from "../../../cli/errors.ts";
import {
  oneOf,
  parseCount,
  parseDuration,
  parseMessageNumber,
  parseNames,
  parsePort,
  wholeId,
} from "../../../cli/command_line/numbers.ts";
import { parseHistoryDays } from "../../../cli/files/profile.ts";
import { origin, wholeNumber } from "../../../shared/server/config_reader.ts";
import { parseServiceUrl } from "../../../shared/client/service_url.ts";
import { anyText, ulid, webAddress } from "../../shared/protocol/arbitraries.ts";

/** What a parser returns, or `null` when it refuses. @throws what is no refusal */
function read<T>(parse: () => T): T | null {
  try {
    return parse();
  } catch (error) {
    if (error instanceof CliError && error.code === "CLI_USAGE" || error instanceof TypeError) return null;
    throw error;
  }
}

const PARSERS: readonly [name: string, min: number, max: number, parse: (text: string) => number | undefined][] = [
  ["a count", 1, 500, (text) => parseCount(text, "--limit", 500)],
  ["the number of a message", 1, Number.MAX_SAFE_INTEGER, (text) => parseMessageNumber(text, "")],
  ["a port", 1, 65_535, (text) => parsePort(text, "--port")],
  ["days", 0, 365, parseHistoryDays],
  ["a variable of the server", 7, 86_400, wholeNumber(7, 86_400)],
];

Deno.test("a number counts in plain digits and within its bounds, and any other text is refused", () => {
  const near = fc.oneof(fc.integer({ min: -2, max: 100_000 }), fc.maxSafeNat());
  for (const [name, min, max, parse] of PARSERS) {
    fc.assert(fc.property(near, (number) => {
      assertEquals(read(() => parse(String(number))), number >= min && number <= max ? number : null, name);
    }));
    for (const edge of [min, max]) assertEquals(parse(String(edge)), edge, name);
    fc.assert(
      fc.property(fc.oneof(anyText, fc.constantFrom("1e1", "0x9", "+9", " 9", "9 ", "9.0", "٩", "")), (text) => {
        const found = read(() => parse(text));
        if (found !== null) assertEquals([/^\d{1,16}$/.test(text), Number(text)], [true, found], name);
      }),
    );
    assertEquals(read(() => parse("9".repeat(2 ** 20))), null, name);
  }
});

Deno.test("a duration is a number and one of three units", () => {
  const units = { min: 60_000, h: 3_600_000, d: 86_400_000 } as const;
  fc.assert(fc.property(fc.integer({ min: 1, max: 9_999 }), fc.constantFrom("min", "h", "d"), (count, unit) => {
    assertEquals(parseDuration(`${count}${unit}`, "--for"), count * units[unit]);
  }));
  const other = fc.oneof(anyText, fc.constantFrom("0h", "1", "1 h", "1H", "-1h", "1.5h", "10000d", "1hh", "01h"));
  fc.assert(fc.property(other, (text) => {
    if (!/^[1-9]\d{0,3}(?:min|h|d)$/.test(text)) assertEquals(read(() => parseDuration(text, "--for")), null);
  }));
});

Deno.test("names are read back from their list, and an empty or too long list is refused", () => {
  const name = fc.stringMatching(/^[a-z0-9-]{1,12}$/), gap = fc.constantFrom(",", ", ", " ,");
  fc.assert(fc.property(fc.array(name, { minLength: 1, maxLength: 12 }), gap, (names, gap) => {
    assertEquals(read(() => parseNames(names.join(gap), "--peers", 10)), names.length <= 10 ? names : null);
  }));
  for (const list of ["", ",", "a,", ",a", "a,,b", ",".repeat(2 ** 20)]) {
    assertEquals(read(() => parseNames(list, "--peers", 10)), null);
  }
});

Deno.test("a whole ID needs no list, an end names the one ID that has it, and any other text is refused", async () => {
  const kind = { what: "an invite ID", named: "invite", list: "svc invite list" };
  await fc.assert(fc.asyncProperty(fc.uniqueArray(ulid, { minLength: 2, maxLength: 5 }), async (ids) => {
    const known = () => Promise.resolve(ids.map((id) => ({ id }))), [first = ""] = ids;
    assertEquals(await wholeId(first, () => Promise.reject(new Error("asked")), kind), first);
    const end = first.slice(-6), same = ids.filter((id) => id.endsWith(end));
    const found = await wholeId(end, known, kind).catch((error: CliError) => error.code);
    assertEquals(found, same.length === 1 ? first : "CLI_AMBIGUOUS");
  }));
  await fc.assert(fc.asyncProperty(anyText, async (text) => {
    const found = await wholeId(text, () => Promise.resolve([]), kind).catch((error: CliError) => error.code);
    assertEquals(found, "CLI_USAGE");
  }));
});

Deno.test("a word that is not known is refused, for any text", () => {
  fc.assert(fc.property(anyText, (text) => {
    assertEquals(read(() => oneOf(["alpha", "beta"], text, "word")), ["alpha", "beta"].includes(text) ? text : null);
  }));
});

Deno.test("the address of a service is its origin, in commands and in the variables of the server", () => {
  const origins = fc.constantFrom("https://r.example", "http://127.0.0.1:8787", "https://[::1]:8443");
  fc.assert(fc.property(origins, fc.constantFrom("", "/"), (text, slash) => {
    assertEquals([parseServiceUrl(text + slash), origin(text + slash)], [text, text]);
  }));
  fc.assert(fc.property(fc.oneof(anyText, webAddress), (text) => {
    for (const found of [parseServiceUrl(text), read(() => origin(text))]) {
      if (found !== null) assertEquals([new URL(text).origin, new URL(text).pathname], [found, "/"]);
    }
  }));
});
