/**
 * Compares the command table with the specification in both directions, and checks everything that is generated from
 * it.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type Command, GLOBAL_OPTIONS, usageOf } from "../../../cli/command_line/command.ts";
import { allCommands, GROUPS } from "../../../cli/commands/table.ts";
import { help } from "../../../cli/command_line/help.ts";
import { renderCliDoc } from "../../tools/cli_doc.ts";
import { parse } from "../../../cli/command_line/parse.ts";

const COMMANDS = await allCommands();

const name = ({ path }: Command) => path.join(" ");
const find = (path: string) => COMMANDS.find((command) => name(command) === path);

/** The commands that were asked for. */
const SPECIFIED: Record<string, { args: string[]; options: string[] }> = {
  "admin bootstrap": { args: [], options: ["registry-url", "bootstrap-secret"] },
  "config init": { args: [], options: ["registry-url"] },
  "config set": { args: ["key", "value"], options: [] },
  "config get": { args: ["key"], options: [] },
  "config show": { args: [], options: [] },
  "invite create": { args: ["agent"], options: ["expires-at", "registry-url"] },
  "invite redeem": { args: ["code"], options: ["display-name", "registry-url"] },
  "agent create": { args: ["name"], options: ["framework", "ttl-days"] },
  "agent inspect": { args: ["name"], options: [] },
  "agent auth revoke": { args: ["agent"], options: [] },
  "agent auth refresh": { args: ["name"], options: [] },
  "api-key create": { args: [], options: ["name"] },
  "api-key list": { args: [], options: [] },
  "api-key revoke": { args: ["key-id"], options: [] },
  "connector start": {
    args: ["agentName"],
    options: ["proxy-ws-url", "openclaw-base-url", "hook-path", "hook-token"],
  },
  "connector service install": { args: ["agentName"], options: ["platform", "proxy-ws-url", "hook-token"] },
  "connector service uninstall": { args: ["agentName"], options: ["platform"] },
  "install": { args: [], options: ["for", "port", "token", "list"] },
  "provider status": { args: [], options: ["for"] },
  "provider setup": {
    args: [],
    options: [
      ...["for", "agent-name", "platform-base-url", "webhook-host", "webhook-port", "webhook-token"],
      ...["connector-base-url", "connector-url", "relay-transform-peers-path"],
    ],
  },
  "provider doctor": {
    args: [],
    options: ["for", "peer", "platform-state-dir", "connector-base-url", "skip-connector-runtime"],
  },
  "provider relay-test": {
    args: [],
    options: [
      ...["for", "peer", "platform-state-dir", "platform-base-url", "webhook-token", "connector-base-url"],
      ...["message", "session-id", "no-preflight"],
    ],
  },
};

/** Commands that the project adds. */
const ADDED = [
  "whoami",
  "admin people list",
  "admin people show",
  "admin people suspend",
  "admin people restore",
  "admin agents list",
  "admin agents show",
  "admin agents revoke",
  "admin agents end-session",
  "admin overview",
  "admin relay delivery",
  "admin issuers",
  "admin relay queues",
  "admin relay refusals",
  "admin audit",
  "invite list",
  "invite revoke",
  "join",
  "peers",
  "peers rename",
  "peers block",
  "peers unblock",
  "peers remove",
  "send",
  "reply",
  "inbox",
  "sent",
  "log",
  "status",
  "profile list",
  "profile set",
  "profile show",
  "uninstall",
  "dead-letters",
  "dead-letters replay",
  "dead-letters purge",
  "a2a add",
  "a2a list",
  "a2a remove",
  "admin open",
  "admin service create",
  "admin service list",
  "admin service rotate",
  "admin service revoke",
  "admin keys rotate",
  "agent list",
  "agent reissue",
  "agent delete",
  "explain",
  "verify",
  "receipt verify",
  "completions",
  "connector",
  "connector status",
  "connector open",
  "connector service logs",
  "mcp",
  // One program.
  "serve",
  "demo",
  "store inspect",
  "store recover",
  "store export",
  "store import",
  "health",
  // Tools and wake-up for coding agents.
  "mcp install",
  "hook claude-code",
];

Deno.test("the commands are exactly those of the specification and the added ones", () => {
  assertEquals(COMMANDS.map(name).sort(), [...Object.keys(SPECIFIED), ...ADDED].sort());
});

Deno.test("each command of the specification has its arguments and options", async (t) => {
  for (const [path, { args, options }] of Object.entries(SPECIFIED)) {
    await t.step(path, () => {
      const command = find(path);
      assertEquals(Object.keys(command?.args ?? {}), args);
      for (const option of options) assert(Object.hasOwn(command?.options ?? {}, option), `--${option}`);
    });
  }
});

Deno.test("an option has a value in every command that has it, or in none", () => {
  const kinds = new Map<string, string>();
  for (const command of COMMANDS) {
    const options: Command["options"] = { ...command.options, ...GLOBAL_OPTIONS };
    for (const [option, { value }] of Object.entries(options)) {
      const kind = value === undefined ? "switch" : "value";
      assertEquals(kinds.get(option) ?? kind, kind, `--${option} of ${name(command)}`);
      kinds.set(option, kind);
    }
  }
});

Deno.test("every secret option is also read from the environment or from standard input", () => {
  const secretive = /secret|key$|token|password/;
  for (const { path, options } of COMMANDS) {
    for (const [option, { secret, env, value }] of Object.entries(options)) {
      if (value === undefined || !secretive.test(option)) continue;
      assert(secret && env, `--${option} of ${path.join(" ")}`);
    }
  }
});

Deno.test("every command has a summary without a full stop, and an example that parses", async (t) => {
  for (const command of COMMANDS) {
    await t.step(name(command), () => {
      assert(command.summary.length > 10 && !command.summary.endsWith("."));
      assert(Object.keys(command.examples).length > 0);
      for (const [run, purpose] of Object.entries(command.examples)) {
        assert(purpose !== "" && run.startsWith("svc "));
        const words = [...run.split(/ [<>]/)[0]?.matchAll(/"([^"]*)"|(\S+)/g) ?? []].map(([, quoted, word]) =>
          quoted ?? word ?? ""
        ).slice(1);
        const parsed = parse(words, COMMANDS);
        assertEquals(parsed.kind === "run" && name(parsed.command), name(command));
      }
    });
  }
});

Deno.test("every level has help that names all its entries", async (t) => {
  await t.step("at the top: every command on one screen, and the first steps", () => {
    const text = help([], COMMANDS, GROUPS);
    for (const { path: [group = "", ...below] } of COMMANDS) {
      assertStringIncludes(text, `\n  ${group} `);
      assertStringIncludes(text, below.join(" "));
    }
    for (const path of ["join", "connector start", "send"]) {
      assertStringIncludes(text, Object.keys(find(path)?.examples ?? {})[0] ?? path);
    }
    assert(text.split("\n").length <= 70, "fits one tall screen");
  });
  for (const group of Object.keys(GROUPS).filter((path) => find(path) === undefined)) {
    await t.step(group, () => {
      const text = help(group.split(" "), COMMANDS, GROUPS);
      assertStringIncludes(text, GROUPS[group] ?? "");
      for (const command of COMMANDS.filter((c) => name(c).startsWith(`${group} `))) {
        assertStringIncludes(text, command.summary);
        assertStringIncludes(text, Object.keys(command.examples)[0] ?? "an example");
      }
    });
  }
  for (const command of COMMANDS) {
    await t.step(name(command), () => {
      const text = help(command.path, COMMANDS, GROUPS);
      for (const below of COMMANDS.filter((c) => name(c).startsWith(`${name(command)} `))) {
        assertStringIncludes(text, below.summary);
      }
      for (const argument of Object.keys(command.args)) assertStringIncludes(text, argument);
      for (const option of Object.keys({ ...command.options, ...GLOBAL_OPTIONS })) {
        assertStringIncludes(text, `--${option}`);
      }
      for (const run of Object.keys(command.examples)) assertStringIncludes(text, run);
    });
  }
});

Deno.test("every group of commands has a summary", () => {
  const groups = new Set(
    COMMANDS.flatMap(({ path }) => path.slice(0, -1).map((_, i) => path.slice(0, i + 1).join(" "))),
  );
  for (const group of groups) assert(GROUPS[group], group);
});

Deno.test("docs/cli.md names every command and option", () => {
  const text = renderCliDoc(COMMANDS, GROUPS);
  for (const command of COMMANDS) {
    assertStringIncludes(text, usageOf(command));
    for (const option of Object.keys(command.options)) assertStringIncludes(text, `--${option}`);
  }
  assert(text.endsWith("\n") && !text.endsWith("\n\n"));
});
