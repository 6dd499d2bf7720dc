/**
 * The functions of `@std` in use, which `shared/jsr/` serves, return the results of fixed vectors. docs/security.md names the
 * package behind the assertions as deno.lock has it.
 */
import {
  assert,
  assertEquals,
  assertExists,
  assertInstanceOf,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
  fail,
} from "@std/assert";

const ROOT = new URL("../../", import.meta.url);

/** Runs an assertion. True when it throws. */
async function fails(run: () => unknown): Promise<boolean> {
  try {
    await run();
    return false;
  } catch {
    return true;
  }
}

Deno.test("each assertion of @std passes what holds and fails what does not", async () => {
  const rejection = () => Promise.reject(new TypeError("x"));
  const thrown = () => {
    throw new TypeError("x");
  };
  const cases: [name: string, holds: () => unknown, doesNot: () => unknown][] = [
    ["assert", () => assert(1), () => assert(0)],
    ["assertEquals", () => assertEquals({ a: [1] }, { a: [1] }), () => assertEquals({ a: [1] }, { a: [2] })],
    [
      "assertEquals on types",
      () => assertEquals(new Map([[1, 2]]), new Map([[1, 2]])),
      () => assertEquals<unknown>(1, "1"),
    ],
    ["assertNotEquals", () => assertNotEquals(1, 2), () => assertNotEquals([1], [1])],
    ["assertExists", () => assertExists(0), () => assertExists(null)],
    ["assertMatch", () => assertMatch("ab", /b$/), () => assertMatch("ab", /a$/)],
    ["assertStringIncludes", () => assertStringIncludes("abc", "bc"), () => assertStringIncludes("abc", "d")],
    ["assertInstanceOf", () => assertInstanceOf(new TypeError(), Error), () => assertInstanceOf({}, Error)],
    ["assertThrows", () => assertThrows(thrown, TypeError), () => assertThrows(() => {})],
    ["assertThrows by class", () => assertThrows(thrown, Error), () => assertThrows(thrown, RangeError)],
    ["assertRejects", () => assertRejects(rejection, TypeError), () => assertRejects(() => Promise.resolve())],
    ["assertRejects by class", () => assertRejects(rejection, Error), () => assertRejects(rejection, RangeError)],
    ["fail", () => {}, () => fail("x")],
  ];
  for (const [name, holds, doesNot] of cases) {
    // Compared without an assertion, because the assertions are under test.
    if (await fails(holds) || !(await fails(doesNot))) throw new Error(name);
  }
});

Deno.test("docs/security.md names the version and the integrity of deno-std in deno.lock", async () => {
  const lock = JSON.parse(await Deno.readTextFile(new URL("deno.lock", ROOT)));
  const text = await Deno.readTextFile(new URL("docs/security.md", ROOT));
  const [key = ""] = Object.keys(lock.npm).filter((name) => name.startsWith("deno-std@"));
  assertStringIncludes(text, `\`deno-std\`, version ${key.slice("deno-std@".length)},`);
  assertStringIncludes(text, lock.npm[key].integrity);
});
