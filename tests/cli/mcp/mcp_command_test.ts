/** The command line of `svc mcp`: what it refuses before it serves. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { allCommands } from "../../../cli/commands/table.ts";
import { parse } from "../../../cli/command_line/parse.ts";
import { CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";
import { Machine } from "../cli_world.ts";

const COMMANDS = await allCommands();

Deno.test("an agent that is not on this machine, and an invalid list of peers are refused", async () => {
  await using machine = await Machine.ofPerson();
  const log = console.log;
  const refusals: [string[], number, string][] = [
    [["alpha"], 4, "CLI_AGENT_UNKNOWN"],
    [[], 4, "CLI_AGENT_UNKNOWN"],
    [["alpha", "--peers", "a,,b"], 2, "CLI_USAGE"],
    [["alpha", "--peers", "a,".repeat(CONNECTOR_LIMITS.sendersAtOnce) + "b"], 2, "CLI_USAGE"],
    [["alpha", "beta"], 2, "CLI_USAGE"],
    [["alpha", "--from", "beta"], 2, "CLI_USAGE"],
  ];
  for (const [args, exit, code] of refusals) {
    const { stdout, stderr, code: found } = await machine.svc("mcp", ...args);
    assertEquals([found, stdout], [exit, ""], args.join(" "));
    assertStringIncludes(stderr, code);
  }
  // A refused command changes nothing of the process.
  assertEquals(console.log, log);
});

Deno.test("svc mcp install is found before an agent of that name", () => {
  const found = (...words: string[]) => {
    const parsed = parse(words, COMMANDS);
    return parsed.kind === "run" ? [parsed.command.path.join(" "), parsed.input.args.agent] : parsed.kind;
  };
  assertEquals(found("mcp", "install", "alpha", "--for", "codex"), ["mcp install", "alpha"]);
  assertEquals(found("mcp", "install", "--for", "codex"), ["mcp install", undefined]);
  assertEquals(found("mcp", "alpha"), ["mcp", "alpha"]);
  assertEquals(found("mcp"), ["mcp", undefined]);
});
