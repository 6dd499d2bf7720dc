/**
 * Shows how configuration is read (docs/operations.md#configuration): every problem is named and reported together, and
 * a complete value is frozen. The readers of single variables (D-24) are tables of accepted and refused texts.
 */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ConfigError, ConfigReader, origin, type Parse, wholeNumber } from "../../../shared/server/config_reader.ts";

/** A reader of the given variables. */
function readerOf(variables: Record<string, string>): ConfigReader {
  return new ConfigReader((name) => variables[name]);
}

Deno.test("the configuration reader reports all problems together with the names of their variables", () => {
  const reader = readerOf({ A: "x", B: "7", C: "y", D: "d" });
  const config = {
    a: reader.read("A", wholeNumber(1, 9), 5),
    b: reader.read("B", wholeNumber(1, 9), 5),
    c: reader.read("C", wholeNumber(1, 9), 5),
    missing: reader.read("MISSING", wholeNumber(1, 9), 5),
  };
  reader.problem("D", "does not fit the rest");
  assertEquals(config, { a: 5, b: 7, c: 5, missing: 5 });
  const error = assertThrows(() => reader.finish(config), ConfigError);
  assertEquals(error.problems, [
    "A: must be a whole number from 1 to 9",
    "C: must be a whole number from 1 to 9",
    "D: does not fit the rest",
  ]);
  for (const problem of error.problems) assertStringIncludes(error.message, problem);
});

Deno.test("the configuration reader freezes a configuration without problems", () => {
  const config = readerOf({}).finish({ a: 1 });
  assertEquals(config, { a: 1 });
  assertThrows(() => Object.assign(config, { a: 2 }), TypeError);
});

Deno.test("the configuration reader reports only an unreadable value when a reader throws no Error", () => {
  const reader = readerOf({ A: "x" });
  reader.read("A", () => {
    throw "the secret";
  }, 1);
  assertEquals(reader.problems, ["A: cannot be read"]);
});

async function table<T>(t: Deno.TestContext, parse: Parse<T>, good: [string, T][], bad: string[]): Promise<void> {
  for (const [text, value] of good) await t.step(`takes ${text}`, () => assertEquals(parse(text), value));
  for (const text of bad) {
    await t.step(`refuses ${JSON.stringify(text)}`, () => void assertThrows(() => parse(text), TypeError, "must be"));
  }
}

Deno.test("an origin variable accepts an http or https origin only", async (t) => {
  await table(t, origin, [
    ["https://proxy.example", "https://proxy.example"],
    ["https://proxy.example/", "https://proxy.example"],
    ["HTTPS://Proxy.Example:443", "https://proxy.example"],
    ["http://127.0.0.1:8787", "http://127.0.0.1:8787"],
    ["http://[::1]:8787", "http://[::1]:8787"],
  ], [
    "",
    "proxy.example",
    "//proxy.example",
    "ftp://proxy.example",
    "wss://proxy.example",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https://proxy.example/path",
    "https://proxy.example?",
    "https://proxy.example?x=1",
    "https://proxy.example#",
    "https://user@proxy.example",
    "https://user:pass@proxy.example",
    "https://",
  ]);
});
