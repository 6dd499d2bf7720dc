/**
 * The editors of JSON and TOML texts: random documents with comments and trailing commas keep everything but the entry,
 * line ends and indentation stay, and no text of 1 MiB or with deep nesting exhausts stack or time.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { parse as parseJson } from "jsonc-parser";
import { parse as parseToml } from "smol-toml";
import { JSON_TEXT } from "../../../cli/hosts/json_text.ts";
import { NotEditableError, type Place, type TextEditor } from "../../../cli/hosts/place.ts";
import { TOML_TEXT } from "../../../cli/hosts/toml_text.ts";

const RUNS = { seed: 1, numRuns: 300 };
const ENTRY = { command: "svc", args: ["mcp", "alpha", 'a "quoted" \\ word\u007f'] };
const OTHER = { command: "svc", args: [] };
const MEMBER: Place = { path: ["servers", "svc-alpha"] };
const IN_ARRAY: Place = {
  path: ["hooks", "Stop"],
  isEntry: (one) => typeof one === "object" && one !== null && "command" in one && one.command === "svc",
};
const TABLE: Place = { path: ["mcp_servers", "svc-alpha"] };

const jsonValue = (text: string): unknown => parseJson(text, [], { allowTrailingComma: true });

/** Line breaks, white space and comments between two tokens. */
const gap = fc.constantFrom("", " ", "\n", "\n  ", "\t", "/* } , */", ' // ] "\n', "\r\n    ", "/*\n*/ ");
const key = fc.constantFrom("a", "b", "servers", "hooks", "Stop", "svc-alpha", "__proto__", "", 'q"', "ü\\");
const leaf = fc.constantFrom("1", "-0.50", "1e9", "true", "null", '"x"', '"// no comment"', '"\\u007d"', '"svc"');

/** A document as text: its object has the members around the entry more often than chance. */
const { document } = fc.letrec<{ value: string; object: string; array: string; document: string }>((tie) => {
  const list = (open: string, close: string, item: fc.Arbitrary<string>) =>
    fc.tuple(fc.array(fc.tuple(gap, item, gap), { maxLength: 4 }), fc.boolean(), gap).map(([items, isTrailing, end]) =>
      open + items.map(([before, text, after]) => before + text + after).join(",") +
      (isTrailing && items.length > 0 ? "," : "") + end + close
    );
  const member = fc.tuple(key, gap, gap, tie("value")).map(([name, a, b, value]) =>
    `${JSON.stringify(name)}${a}:${b}${value}`
  );
  const within = (name: string, inner: fc.Arbitrary<string>) => inner.map((text) => `${JSON.stringify(name)}: ${text}`);
  const likely = fc.oneof(
    member,
    within("servers", tie("object")),
    within("hooks", list("{", "}", within("Stop", tie("array")))),
  );
  return {
    value: fc.oneof({ maxDepth: 4, depthSize: "small" }, leaf, tie("object"), tie("array")),
    object: list("{", "}", member),
    array: list("[", "]", tie("value")),
    document: fc.tuple(gap, list("{", "}", likely), gap).map((parts) => parts.join("")),
  };
});

/** The value without the entry, and without the things around it that are empty then. */
function without(value: unknown, { path, isEntry }: Place): unknown {
  const [name = "", ...rest] = path;
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return value;
  const { [name]: inner, ...others } = value as Record<string, unknown>;
  if (rest.length === 0 && isEntry === undefined) return others;
  const kept = rest.length === 0
    ? (inner as unknown[]).filter((one) => !isEntry?.(one))
    : without(inner, { path: rest, ...(isEntry ? { isEntry } : {}) });
  const isEmpty = typeof kept === "object" && kept !== null && Object.keys(kept).length === 0;
  return isEmpty ? others : { ...others, [name]: kept };
}

/** Comments of a JSON text, in order. */
const commentsOf = (text: string) =>
  (text.match(/"(?:[^"\\]|\\.)*"|\/\/.*|\/\*[^]*?\*\//g) ?? []).filter((one) => one[0] === "/");

for (const [name, place] of [["a member", MEMBER], ["an element", IN_ARRAY]] as const) {
  Deno.test(`a random JSON document keeps everything but ${name}, with its comments`, () => {
    let edits = 0;
    fc.assert(
      fc.property(document, (text) => {
        let added: string;
        const found = (() => {
          try {
            return JSON_TEXT.find(text, place);
          } catch (error) {
            if (error instanceof NotEditableError) return null;
            throw error;
          }
        })();
        if (found === null) return;
        edits++;
        added = JSON_TEXT.withEntry(text, place, ENTRY);
        assertEquals(JSON_TEXT.find(added, place), { entry: ENTRY, missing: 0 });
        assertEquals(without(jsonValue(added), place), without(jsonValue(text), place));
        // Comments within an entry that is replaced are part of it.
        if (found.entry === undefined) assertEquals(commentsOf(added), commentsOf(text));
        added = JSON_TEXT.withEntry(added, place, OTHER);
        assertEquals(JSON_TEXT.find(added, place).entry, OTHER);
        if (found.entry !== undefined) return;
        const removed = JSON_TEXT.withoutEntry(added, place, found.missing);
        assertEquals(JSON_TEXT.find(removed, place).entry, undefined);
        assertEquals(jsonValue(removed), jsonValue(text));
        assertEquals(commentsOf(removed), commentsOf(text));
      }),
      RUNS,
    );
    assert(edits > RUNS.numRuns / 2, `${edits} documents could be changed`);
  });
}

const tomlValue = fc.constantFrom(
  "1",
  "-0.5",
  "inf",
  "nan",
  "9223372036854775807",
  "true",
  '"x # y"',
  "'[svc]'",
  "2026-01-01",
  "07:32:00",
  "1979-05-27T07:32:00-08:00",
  '[ 1, # one\n  [ "a" ],\n]',
  '{ a = 1, "b c" = [] }',
  '"""\n[mcp_servers.svc-alpha]\n"""',
);
const tomlLine = fc.oneof(
  fc.tuple(fc.constantFrom("", "# c [x]\n", "\n", "  "), tomlValue, fc.constantFrom("", " # end")),
);
/** Tables with distinct names; the place of the entry is sometimes a table already. */
const tomlDocument = fc.tuple(
  fc.array(tomlLine, { maxLength: 4 }),
  fc.array(
    fc.tuple(
      fc.constantFrom("[t#]", "[[list]]", "[mcp_servers.s#]", '[mcp_servers."s #"]'),
      fc.array(tomlLine, { maxLength: 3 }),
    ),
    { maxLength: 4 },
  ),
  fc.constantFrom("\n", "\r\n"),
  fc.boolean(),
).map(([first, tables, end, isEnded]) => {
  const lines = (list: typeof first) =>
    list.map(([before, value, after], i) => `${before}k${i} = ${value}${after}\n`).join("");
  const text = lines(first) +
    tables.map(([head, body], i) => head.replace("#", String(i)) + "\n" + lines(body)).join("");
  return (isEnded ? text : text.replace(/\n$/, "")).replaceAll("\n", end);
});

Deno.test("tables that the host puts into the entry stay with it, and are removed with it", () => {
  for (const end of ["\n", "\r\n"]) {
    const before = `a = 1${end}${end}[before]${end}x = 1${end}`;
    // Codex writes this for a tool that the person always allows.
    const inner = `${end}[${TABLE.path.join(".")}.tools.send_message]${end}approval_mode = "approve"${end}`;
    const after = `${end}[after]${end}y = "[z]"${end}`;
    const text = TOML_TEXT.withEntry(before, TABLE, ENTRY) + inner + after;
    assertEquals(TOML_TEXT.find(text, TABLE).entry, ENTRY);
    const changed = TOML_TEXT.withEntry(text, TABLE, OTHER);
    assertEquals(changed, TOML_TEXT.withEntry(before, TABLE, OTHER) + inner + after);
    assertEquals(TOML_TEXT.withoutEntry(changed, TABLE, 0), before + after);
  }
});

Deno.test("an entry whose numbers Codex has written again is found, replaced and removed", () => {
  for (const end of ["\n", "\r\n"]) {
    const before = `a = 1${end}`, after = `${end}[mcp_servers.other]${end}command = "other"${end}`;
    // With a value that is longer than the longest regular expression.
    const entry = { ...ENTRY, note: "x".repeat(100_000), startup_timeout_sec: 20, tool_timeout_sec: 660 };
    const written = TOML_TEXT.withEntry(before, TABLE, entry);
    // `codex mcp add other` does this to every entry.
    const text = written.replace(/ = (\d+)(?=\r?\n)/g, (all, _, at) => at < before.length ? all : `${all}.0`) + after;
    assert(text.includes("660.0"));
    assertEquals(TOML_TEXT.withEntry(text, TABLE, OTHER), TOML_TEXT.withEntry(before, TABLE, OTHER) + after);
    assertEquals(TOML_TEXT.withoutEntry(text, TABLE, 0), before + after);
  }
});

Deno.test("a random TOML document keeps everything but the table, with its comments", () => {
  fc.assert(
    fc.property(tomlDocument, (text) => {
      const options = { integersAsBigInt: "asNeeded" } as const;
      const before = parseToml(text, options);
      let added = TOML_TEXT.withEntry(text, TABLE, ENTRY);
      assertEquals(TOML_TEXT.find(added, TABLE).entry, ENTRY);
      assertEquals(without(parseToml(added, options), TABLE), without(before, TABLE));
      assert(added.startsWith(text), "the rest of the text stays");
      assertEquals(TOML_TEXT.withEntry(added, TABLE, ENTRY), added);
      added = TOML_TEXT.withEntry(`${added}\n[later]\nx = 1 # x\n`, TABLE, OTHER);
      assertEquals(TOML_TEXT.find(added, TABLE).entry, OTHER);
      const removed = TOML_TEXT.withoutEntry(added, TABLE, 0);
      assertEquals(parseToml(removed, options), { ...before, later: { x: 1 } });
      assertEquals(removed.startsWith(text), true);
    }),
    RUNS,
  );
});

Deno.test("indentation, line ends and the byte order mark of a file stay", () => {
  const cases: [text: string, added: string][] = [
    [
      '{\n\t"a": 1\n}\n',
      '{\n\t"a": 1,\n\t"servers": {\n\t\t"svc-alpha": {\n\t\t\t"command": "svc",\n\t\t\t"args": []\n\t\t}\n\t}\n}\n',
    ],
    [
      '{\r\n    "servers": {}\r\n}',
      '{\r\n    "servers": {\r\n        "svc-alpha": {\r\n            "command": "svc",\r\n            "args": []\r\n        }\r\n    }\r\n}',
    ],
    ['{"a":1,"servers":{"x":{}}}', '{"a":1,"servers":{"x":{}, "svc-alpha": {"command":"svc","args":[]}}}'],
    [
      "\ufeff{}",
      '\ufeff{\n  "servers": {\n    "svc-alpha": {\n      "command": "svc",\n      "args": []\n    }\n  }\n}',
    ],
  ];
  for (const [text, added] of cases) {
    assertEquals(JSON_TEXT.withEntry(text, MEMBER, OTHER), added);
    assertEquals(JSON_TEXT.withoutEntry(added, MEMBER, 2 - JSON_TEXT.find(text, MEMBER).missing === 2 ? 0 : 1), text);
  }
});

const BYTES = 1024 ** 2;
const filled = (head: string, unit: string, tail: string) =>
  head + unit.repeat(Math.floor((BYTES - head.length - tail.length) / unit.length)) + tail;

Deno.test("deep nesting is refused before a parser calls itself for each level", () => {
  const texts: [TextEditor, Place, string][] = [
    [JSON_TEXT, MEMBER, filled("", '{"a":', "")],
    [JSON_TEXT, MEMBER, filled('{"a":', "[", "")],
    [TOML_TEXT, TABLE, filled("a=", "[", "")],
    [TOML_TEXT, TABLE, filled("a=", "{a=", "")],
    [TOML_TEXT, TABLE, filled("a", ".a", "=1")],
    [TOML_TEXT, TABLE, filled("[a", ".a", "]")],
  ];
  for (const [editor, place, text] of texts) {
    const error = assertThrows(() => editor.withEntry(text, place, ENTRY), NotEditableError);
    assert(/nested (?:deeper|too deep)/.test(error.message), error.message);
  }
});

Deno.test("a text is refused at its first error, also with deep nesting behind it", () => {
  for (const text of [filled('{"a":', "[},", ""), `{"a":${"]".repeat(BYTES / 2)},"b":${"[".repeat(BYTES / 2)}`]) {
    const error = assertThrows(() => JSON_TEXT.withEntry(text, MEMBER, ENTRY), NotEditableError);
    assertEquals(error.message, "it is not valid JSON in line 1");
  }
});

Deno.test("millions of values in a JSON file fit into little memory", async () => {
  const program = `
    import { JSON_TEXT } from "${import.meta.resolve("../../../cli/hosts/json_text.ts")}";
    const many = (unit) => unit.repeat(${2 * BYTES} / unit.length);
    const path = ["servers", "svc-alpha"];
    for (
      const text of [
        '{"a":[' + many("0,") + "]}",
        '{"servers":{' + many('"":0,') + "}}",
        '{"servers":{"svc-alpha":[' + many("{},") + "]}}",
      ]
    ) {
      JSON_TEXT.find(text, { path });
      JSON_TEXT.withEntry(text, { path }, { command: "svc" });
    }`;
  const small = ["--v8-flags=--max-old-space-size=48", "--ext=js", program];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args: ["eval", ...small] }).output();
  assert(success, new TextDecoder().decode(stderr).slice(-500));
});

Deno.test("a text of 1 MiB is changed, also when all of it is one token or comments", () => {
  const texts: [TextEditor, Place, string][] = [
    [JSON_TEXT, MEMBER, filled('{"servers":{"x":1', "/*\n*/", "}}")],
    [TOML_TEXT, TABLE, filled('a="""', '""\n', '"""\n')],
    [TOML_TEXT, TABLE, filled("", "#[mcp_servers.svc-alpha]\n", "")],
  ];
  for (const [editor, place, text] of texts) {
    const added = editor.withEntry(text, place, ENTRY);
    assertEquals(editor.find(added, place).entry, ENTRY);
    assert(editor.withoutEntry(added, place, editor === JSON_TEXT ? 1 : 0).length >= text.length);
  }
});
