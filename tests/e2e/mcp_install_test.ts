/**
 * The entry that `svc mcp install` writes works as a host starts it (D-131): without PATH, in another folder, with the
 * variables that hosts pass on.
 */
import { assert, assertEquals } from "@std/assert";
import { COMMANDS } from "../../cli/commands/table.ts";
import { Place } from "../cli/place.ts";
import { Machine, programs } from "../cli/program.ts";

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
        await machine.json("agent", "create", `alpha-${program.name}`);
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
