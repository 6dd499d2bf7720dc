/**
 * The entry that `svc mcp install` writes works as a host starts it: without PATH, in another folder, with the
 * variables that hosts pass on.
 */
import { assert, assertEquals } from "@std/assert";
import { allCommands } from "../../cli/commands/table.ts";
import { svcHere } from "../cli/connector/people.ts";
import { Place } from "../cli/place.ts";
import { bundledProgram, Machine, programs } from "../cli/program.ts";
import { tempFolder } from "../support/process.ts";
import { longTest } from "../support/trials.ts";
import { FIRST_PART } from "../tools/compile.ts";
import { BUNDLE_FLAGS } from "../tools/pack.ts";

const COMMANDS = await allCommands();

const hasTools = COMMANDS.some(({ path }) => path.join(" ") === "mcp");
if (!hasTools) console.log("The entry of svc mcp install is NOT started here: this svc has no command mcp");

interface Answer {
  id?: number;
  result?: { tools?: { name: string }[] };
}

/** Asks a server over its standard streams for its tools, as the revision of 2025-06-18 does. */
async function toolsOf(command: string, args: readonly string[], home: string): Promise<string[]> {
  const options = { cwd: "/", clearEnv: true, env: { HOME: home, PATH: "" } };
  const child = new Deno.Command(command, { ...options, args: [...args], stdin: "piped", stdout: "piped" }).spawn();
  const writer = child.stdin.getWriter();
  const say = (message: object) => writer.write(new TextEncoder().encode(`${JSON.stringify(message)}\n`));
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  await say({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  let text = "", tools: string[] | null = null;
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      const { id, result } = JSON.parse(line) as Answer;
      if (id === 1) {
        await say({ jsonrpc: "2.0", method: "notifications/initialized" });
        await say({ jsonrpc: "2.0", id: 2, method: "tools/list" });
      }
      if (id === 2) {
        tools = (result?.tools ?? []).map(({ name }) => name);
        await writer.close();
      }
    }
  }
  await child.status;
  assert(tools !== null, "the server answered");
  return tools;
}

Deno.test({
  name: "the entry that is written lists its tools with an empty PATH and in another folder",
  ignore: !hasTools,
  async fn(t) {
    await using place = await Place.open();
    for (const program of await programs()) {
      await t.step(program.name, async () => {
        await using machine = await Machine.open(program, place);
        machine.env.HOME = machine.folder.path;
        await svcHere(machine.dir, ["agent", "create", `alpha-${program.name}`], machine.env);
        await Deno.mkdir(`${machine.folder.path}/.cursor`);
        const { path } = await machine.json("mcp", "install", "--for", "cursor");
        const { mcpServers } = JSON.parse(Deno.readTextFileSync(path));
        const { command, args } = mcpServers[`svc-alpha-${program.name}`] as { command: string; args: string[] };
        assertEquals(args.slice(-4), ["mcp", `alpha-${program.name}`, "--config-dir", machine.dir]);
        assert((await toolsOf(command, args, machine.folder.path)).includes("send_message"));
      });
    }
  },
});

/** Makes the bundle in a folder the one of a later release, which reads one more variable. */
async function release(lib: string, variable: string): Promise<void> {
  const config = JSON.parse(await Deno.readTextFile(`${lib}/deno.json`));
  for (const { env } of Object.values(config.permissions) as { env: string[] }[]) env.push(variable);
  await Deno.writeTextFile(`${lib}/deno.json`, JSON.stringify(config));
  const text = await Deno.readTextFile(`${lib}/${FIRST_PART}`);
  await Deno.writeTextFile(`${lib}/${FIRST_PART}`, `Deno.env.get("${variable}");${text}`);
}

longTest("entries and hooks that a release wrote start the next release, which reads one more variable", async (t) => {
  await using place = await Place.open();
  await using folder = await tempFolder();
  const lib = `${folder.path}/lib`;
  await Deno.mkdir(lib);
  const { command, args } = await bundledProgram();
  const from = args.at(-1)?.replace(`/${FIRST_PART}`, "") ?? "";
  for (const { name } of Deno.readDirSync(from)) await Deno.copyFile(`${from}/${name}`, `${lib}/${name}`);
  // A damaged file in a folder above must not stop svc.
  await Deno.writeTextFile(`${folder.path}/deno.json`, "{");
  const program = {
    name: "copy",
    command,
    args: [...BUNDLE_FLAGS, `${lib}/deno.json`, "-P=svc", `${lib}/${FIRST_PART}`],
  };
  await using machine = await Machine.open(program, place);
  const home = machine.env.HOME = machine.folder.path;
  await machine.json("agent", "create", "alpha");
  await Deno.mkdir(`${home}/.claude`);
  const { path, hook } = await machine.json("mcp", "install", "--for", "claude-code", "--wake", "auto");
  await release(lib, "SVC_OF_THE_NEXT_RELEASE");
  await t.step("entry", async () => {
    const entry = JSON.parse(Deno.readTextFileSync(path)).mcpServers["svc-alpha"] as {
      command: string;
      args: string[];
    };
    assert((await toolsOf(entry.command, entry.args, home)).includes("send_message"));
  });
  await t.step("hook", async () => {
    const line = JSON.parse(Deno.readTextFileSync(hook.path)).hooks.Stop[0].hooks[0].command as string;
    // The help is the command's own, so it shows that the program has started.
    const options = { args: ["-c", `${line} --help`], env: { HOME: home, NO_COLOR: "1" }, clearEnv: true };
    const { code, stdout, stderr } = await new Deno.Command("/bin/sh", options).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    assert(new TextDecoder().decode(stdout).includes("svc hook claude-code"));
  });
});
