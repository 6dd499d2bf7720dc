/** Parsing argv into a command: accepted input, refused input, and suggestions. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { type Command, command, usageOf } from "../../../cli/command_line/command.ts";
import { CliError } from "../../../cli/errors.ts";
import { anyText } from "../../shared/protocol/arbitraries.ts";
import { allCommands } from "../../../cli/commands/table.ts";
import { hasSwitch, parse, type Parsed } from "../../../cli/command_line/parse.ts";
import { nearest } from "../../../shared/did_you_mean.ts";

const COMMANDS = await allCommands();

const small = (path: string[], args: Command["args"] = {}, options: Command["options"] = {}) =>
  command({ path, summary: "Does it", args, options, examples: {}, run: () => Promise.resolve() });

const SMALL = [
  small(["agent", "create"], { name: { summary: "Its name" }, more: { summary: "More", optional: true } }, {
    kind: { value: "kind", summary: "Of that kind" },
    scope: { value: "scope", summary: "Several", repeat: true },
    secret: { value: "secret", summary: "Secret", secret: true },
    force: { summary: "Even if" },
  }),
  small(["agent", "auth", "refresh"]),
  small(["drop"], { kind: { summary: "Kind" }, id: { summary: "IDs", optional: true, repeat: true } }),
  small(["pick"], { id: { summary: "IDs", repeat: true } }),
  small(["need"], {}, { it: { value: "it", summary: "It", required: true } }),
];

function ran(...argv: string[]): Extract<Parsed, { kind: "run" }> {
  const parsed = parse(argv, SMALL);
  if (parsed.kind !== "run") throw new Error(`not a command but ${parsed.kind}`);
  return parsed;
}

function refused(...argv: string[]): string {
  return assertThrows(() => parse(argv, SMALL), CliError).message;
}

Deno.test("the parser finds the command, its arguments and options in any order", () => {
  const orders = [
    ["agent", "create", "x", "--kind", "a", "--force"],
    ["--force", "agent", "create", "--kind=a", "x"],
    ["--kind", "a", "--force", "agent", "create", "x"],
    ["agent", "--kind", "a", "create", "--force", "--", "x"],
  ];
  for (const argv of orders) {
    const { command: found, input } = ran(...argv);
    assertEquals(found.path, ["agent", "create"], argv.join(" "));
    assertEquals(input.args, { name: "x", more: undefined });
    assertEquals(input.options, { kind: "a", scope: [], secret: undefined, force: true });
  }
});

Deno.test("the parser collects a repeated last argument, and needs one unless it is optional", () => {
  assertEquals(ran("drop", "a").input.args, { kind: "a", id: [] });
  assertEquals(ran("drop", "a", "1", "--", "--2", "3").input.args, { kind: "a", id: ["1", "--2", "3"] });
  assertEquals(ran("pick", "1").input.args, { id: ["1"] });
  assertStringIncludes(refused("pick"), "<id> is missing");
  assertEquals(SMALL.map(usageOf).slice(2, 4), ["svc drop <kind> [id]…", "svc pick <id>…"]);
});

Deno.test("a text with a space may begin with a hyphen; any other one needs -- before it", () => {
  const textOf = (...argv: string[]) => {
    const parsed = parse(["send", "beta", ...argv], COMMANDS);
    return parsed.kind === "run" ? parsed.input.args.text : parsed.kind;
  };
  for (const text of ["- one thing", "--wait is missing", "-5 °C", "--a b=c"]) assertEquals(textOf(text), text);
  assertEquals(textOf("--", "-1"), "-1");
  const { message } = assertThrows(() => textOf("-1"), CliError);
  assertEquals(message, "There is no option --1. Put -- before a text that begins with a hyphen.");
});

Deno.test("the parser keeps values unchanged: numbers, words after a switch, a lone or leading dash", async (t) => {
  const cases: [string[], string, unknown][] = [
    [["agent", "create", "007"], "name", "007"],
    [["agent", "create", "1e3"], "name", "1e3"],
    [["agent", "create", "--force", "true"], "name", "true"],
    [["agent", "create", "-"], "name", "-"],
    [["agent", "create", "--", "--kind"], "name", "--kind"],
    [["agent", "create", "__proto__"], "name", "__proto__"],
  ];
  for (const [argv, name, value] of cases) {
    await t.step(argv.join(" "), () => assertEquals(ran(...argv).input.args[name], value));
  }
  const options: [string[], string, unknown][] = [
    [["--secret", "-"], "secret", "-"],
    [["--secret", "-abc"], "secret", "-abc"],
    [["--secret=--abc"], "secret", "--abc"],
    [["--secret", "a=b"], "secret", "a=b"],
    [["--kind", "12"], "kind", "12"],
    [["--kind", "false"], "kind", "false"],
    [["--scope", "a", "--scope", "b"], "scope", ["a", "b"]],
  ];
  for (const [argv, name, value] of options) {
    await t.step(argv.join(" "), () => assertEquals(ran("agent", "create", "x", ...argv).input.options[name], value));
  }
});

/** A command line with everything that its command requires. */
function lineOf({ path, args, options }: Command, ...more: string[]): string[] {
  const isGiven = (name: string) => more.some((word) => word.split("=")[0] === `--${name}`);
  const required = Object.entries(options).filter(([name, spec]) => spec.required && !isGiven(name));
  return [
    ...path,
    ...more,
    ...required.flatMap(([name]) => [`--${name}`, "x"]),
    ...Object.entries(args).flatMap(([, { optional }]) => optional ? [] : ["x"]),
  ];
}

Deno.test("each option of the command table reaches its command in both forms", async (t) => {
  for (const spec of COMMANDS) {
    for (const [name, { value, repeat }] of Object.entries(spec.options)) {
      const forms = value === undefined ? [[`--${name}`]] : [[`--${name}`, "given"], [`--${name}=given`]];
      for (const form of forms) {
        await t.step(`${spec.path.join(" ")} ${form.join(" ")}`, () => {
          const parsed = parse(lineOf(spec, ...form), COMMANDS);
          assert(parsed.kind === "run");
          assertEquals(parsed.command.path, spec.path);
          assertEquals(parsed.input.options[name], value === undefined ? true : repeat ? ["given"] : "given");
        });
      }
      if (value !== undefined) continue;
      await t.step(`${spec.path.join(" ")} without --${name}, and with a value`, () => {
        const parsed = parse(lineOf(spec), COMMANDS);
        assert(parsed.kind === "run");
        assertEquals(parsed.input.options[name], false);
        const { message } = assertThrows(() => parse(lineOf(spec, `--${name}=x`), COMMANDS), CliError);
        assertStringIncludes(message, `--${name} takes no value`);
      });
    }
  }
});

Deno.test("an option that begins with no- is not the negation of another", () => {
  assertEquals(refused("agent", "create", "x", "--no-force"), "There is no option --no-force.");
});

Deno.test("a secret that begins with two dashes is accepted after = and not repeated in the error", () => {
  const parsed = parse(["admin", "bootstrap", "--bootstrap-secret=--s3cret=="], COMMANDS);
  assert(parsed.kind === "run");
  assertEquals(parsed.input.options["bootstrap-secret"], "--s3cret==");
  const line = ["admin", "bootstrap", "--bootstrap-secret", "--s3cret"];
  const { message } = assertThrows(() => parse(line, COMMANDS), CliError);
  assertStringIncludes(message, "--bootstrap-secret=<value> for a value that begins with --, or - for standard input");
  assert(!message.includes("s3cret"));
});

Deno.test("the parser refuses unknown words and suggests the nearest", async (t) => {
  const cases: [string[], string][] = [
    [["agnet"], "Did you mean svc agent?"],
    [["agent", "craete"], "Did you mean svc agent create?"],
    [["agent", "auth", "refrsh"], "Did you mean svc agent auth refresh?"],
    [["agent"], "use one of create, auth"],
    [["agent", "create", "x", "--knid", "a"], "Did you mean --kind?"],
    [["agent", "create", "x", "--completely-other"], "There is no option --completely-other"],
    [["agent", "auth", "refresh", "--force"], "There is no option --force"],
    [["agent", "create", "x", "-f"], "There is no option --f"],
    [["agent", "create", "x", "--__proto__=1"], "There is no option"],
    [["agent", "create", "x", "--version"], "There is no option --version"],
    [["agent", "create"], "<name> is missing"],
    [["agent", "create", "x", "y", "z"], '"z" is an extra argument'],
    [["agent", "create", "x", "--kind"], "--kind needs a value"],
    [["agent", "create", "x", "--kind="], "--kind needs a value"],
    [["agent", "create", "x", "--kind", "--force"], "--kind needs a value"],
    [["agent", "create", "x", "--kind", "a", "--kind", "b"], "--kind is given more than once"],
    [["agent", "create", "x", "--force=yes"], "--force takes no value"],
    [["need"], "--it <it> is missing"],
    [["--jsn"], "There is no option --jsn here. Did you mean --json?"],
    [["--kind", "x"], "There is no option --kind here."],
    [["agent", "--jsn"], "There is no option --jsn here."],
    [["agnet", "--jsn"], "Did you mean svc agent?"],
  ];
  for (const [argv, text] of cases) await t.step(argv.join(" "), () => assertStringIncludes(refused(...argv), text));
});

Deno.test("a word from further behind suggests its command when only one has it", () => {
  const said = (line: string) => {
    const { message, fix } = assertThrows(() => parse(line.split(" "), COMMANDS), CliError);
    return [message, fix];
  };
  const hints = [
    ["doctor", "svc provider doctor"],
    ["people suspend Bob", "svc admin people suspend"],
    ["people supsend Bob", "svc admin people"],
    ["admin suspend Bob", "svc admin people suspend"],
  ] as const;
  for (const [line, meant] of hints) assertStringIncludes(said(line)[0] ?? "", `Did you mean ${meant}?`);
  assertEquals(said("nonsense"), ["There is no command svc nonsense.", "For its commands: svc --help"]);
  // Several commands end so.
  assertEquals(said("revoke")[1], "For its commands: svc --help");
  assertEquals(said("version"), ["There is no command svc version", "svc --version prints the version."]);
});

Deno.test("the parser returns help at every level, and the version", () => {
  const helps: [string[], string[]][] = [
    [[], []],
    [["--help"], []],
    [["-h"], []],
    [["agent", "--help"], ["agent"]],
    [["agent", "auth", "-h"], ["agent", "auth"]],
    [["--help", "agent", "create"], ["agent", "create"]],
    [["agent", "create", "--help", "--nonsense"], ["agent", "create"]],
    [["nonsense", "--help"], []],
    [["help"], []],
    [["help", "agent"], ["agent"]],
    [["help", "agent", "create"], ["agent", "create"]],
    [["help", "agent", "create", "--json"], ["agent", "create"]],
  ];
  for (const [argv, path] of helps) assertEquals(parse(argv, SMALL), { kind: "help", path });
  assertEquals(parse(["--version"], SMALL), { kind: "version" });
  assertEquals(parse(["--version", "--json"], SMALL), { kind: "version" });
});

Deno.test("the JSON option is found at any position, but not after --", () => {
  assertEquals(hasSwitch(["--json", "nonsense"], "json"), true);
  assertEquals(hasSwitch(["a", "--", "--json"], "json"), false);
});

Deno.test("the parser says what to use where a person tries pairing, peers or leaving as a command", () => {
  const tried: [argv: string[], command: string][] = [
    [["pair"], "svc connector start"],
    [["pair", "--help"], "svc connector start"],
    [["help", "pair"], "svc connector start"],
    [["unpair", "beta"], "svc peers --help"],
    [["block", "beta"], "svc peers --help"],
    [["leave"], "svc agent delete"],
  ];
  for (const [argv, command] of tried) {
    const error = assertThrows(() => parse(argv, COMMANDS), CliError);
    assertEquals(error.code, "CLI_USAGE");
    assertStringIncludes(error.fix ?? "", command);
  }
});

Deno.test("the parser suggests a command below a command that takes no such argument", () => {
  const message = (...argv: string[]) => assertThrows(() => parse(argv, COMMANDS), CliError).message;
  assertStringIncludes(message("dead-letters", "reply"), "Did you mean svc dead-letters replay?");
  assertStringIncludes(message("connector", "strat", "alpha"), "Did you mean svc connector start?");
  assertStringIncludes(message("peers", "x"), '"x" is an extra argument.');
  const quoting = '"there" is an extra argument. Put a text of several words in quotation marks.';
  assertStringIncludes(message("send", "beta", "hi", "there"), quoting);
});

Deno.test("suggestions correct typing mistakes and ignore unrelated words", () => {
  const words = ["create", "inspect", "delete", "list"];
  for (const [typed, meant] of [["craete", "create"], ["inspct", "inspect"], ["Delete", "delete"], ["lists", "list"]]) {
    assertEquals(nearest(typed ?? "", words), meant);
  }
  assertEquals(nearest("offline", ["online", "offline-for"]), "offline-for");
  assertEquals(nearest("offline", ["online", "offline-for", "offline-since"]), "online", "two begin so");
  // Agents of several people have the same name.
  assertEquals(nearest("assist", ["assistant", "alpha", "assistant"]), "assistant");
  for (const typed of ["xyz", "", "banana", "x".repeat(1000)]) assertEquals(nearest(typed, words), null);
});

Deno.test("a command that needs arguments is not a prefix of another command", () => {
  for (const a of COMMANDS.filter(({ args }) => Object.values(args).some(({ optional }) => !optional))) {
    for (const b of COMMANDS) {
      if (a !== b) assertEquals(a.path.every((word, i) => b.path[i] === word), false, `${a.path} and ${b.path}`);
    }
  }
});

Deno.test("any words are a command with the input that it declares, a help, a version, or a refusal", () => {
  const known = COMMANDS.flatMap(({ path, options }) => [path, Object.keys(options).map((name) => `--${name}`)]).flat();
  const word = fc.oneof(
    fc.constantFrom(...new Set(known)),
    fc.constantFrom(
      "--",
      "-",
      "-h",
      "help",
      "--help",
      "--json",
      "--version",
      "--__proto__",
      "constructor",
      "--x=y",
      "",
    ),
    anyText,
  );
  fc.assert(
    fc.property(fc.array(word, { maxLength: 8 }), (argv) => {
      try {
        const parsed = parse(argv, COMMANDS);
        if (parsed.kind !== "run") return;
        const { args, options } = parsed.command, { input } = parsed;
        assertEquals([Object.keys(input.args), Object.keys(input.options)], [Object.keys(args), Object.keys(options)]);
        for (const [name, { value, repeat }] of Object.entries(options)) {
          const given = input.options[name];
          if (value === undefined) assertEquals(typeof given, "boolean", name);
          else if (repeat) assert(Array.isArray(given) && !given.includes(""), name);
          else assert(given === undefined || typeof given === "string" && given !== "", name);
        }
      } catch (error) {
        assert(error instanceof CliError && error.code === "CLI_USAGE", String(error));
      }
    }),
    { numRuns: 1_000 },
  );
});

Deno.test("what is given to a command in any form and order is read back", () => {
  const texts = fc.stringMatching(/^[^\s=-]{1,10}$/);
  const values = fc.oneof(texts, anyText.filter((text) => text !== ""));
  const given = fc.record({
    name: texts,
    more: fc.option(texts),
    kind: fc.option(values),
    scope: fc.array(values, { maxLength: 3 }),
  });
  fc.assert(fc.property(given, fc.boolean(), fc.boolean(), fc.boolean(), (given, force, isJoined, isFirst) => {
    const option = (name: string, value: string) =>
      isJoined || value.startsWith("--") ? [`--${name}=${value}`] : [`--${name}`, value];
    const options = [
      ...given.kind === null ? [] : option("kind", given.kind),
      ...given.scope.flatMap((scope) => option("scope", scope)),
      ...force ? ["--force"] : [],
    ];
    const words = [given.name, ...given.more === null ? [] : [given.more]];
    const argv = isFirst ? [...options, "agent", "create", ...words] : ["agent", "create", ...words, ...options];
    const { input } = ran(...argv);
    assertEquals(input.args, { name: given.name, more: given.more ?? undefined });
    assertEquals(input.options, { kind: given.kind ?? undefined, scope: given.scope, secret: undefined, force });
  }));
});

Deno.test("a command line of 100,000 words is refused in bounded time", () => {
  const many = Array.from({ length: 100_000 }, (_, i) => `file-${i}`);
  for (const first of [["nosuch"], ["agent"], ["agent", "create", "x"], ["help"], ["--nosuch"], ["--kind"], []]) {
    assertThrows(() => parse([...first, ...many], COMMANDS), CliError);
  }
});
