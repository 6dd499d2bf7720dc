/** What the client library takes from its runtime: processes, and proxy variables that would take secrets off the machine. */
import { assertEquals } from "@std/assert";
import { hostSystem, leavesMachine } from "../../../shared/client/system.ts";
import { tempFolder } from "../../support/temp_folder.ts";

Deno.test("a process that exists is running, and an ID without a process is not", () => {
  const { isRunning, usesProxyVariables, fetch } = hostSystem();
  assertEquals([isRunning(Deno.pid), isRunning(2 ** 30)], [true, false]);
  assertEquals([usesProxyVariables, fetch], [true, globalThis.fetch]);
});

Deno.test("a program that may not read its user ID cannot find out that the connector runs, because another user may have its port", async () => {
  const system = new URL("../../../shared/client/system.ts", import.meta.url);
  await using folder = await tempFolder();
  const program = `${folder.path}/program.ts`;
  const look = `hostSystem().isRunning(${Deno.pid})`;
  await Deno.writeTextFile(program, `import { hostSystem } from "${system}";\nconsole.log(${look});\n`);
  for (
    const [permissions, isFound] of [[["--allow-run", "--allow-sys=uid"], true], [["--allow-run"], false]] as const
  ) {
    const args = ["run", "--no-prompt", "--no-check", "--config", "deno.json", "--allow-read", ...permissions, program];
    const { success } = await new Deno.Command(Deno.execPath(), { args, stdout: "null", stderr: "null" }).output();
    assertEquals(success, isFound, permissions.join(" "));
  }
});

Deno.test("requests to this machine leave it when a proxy is set for http and 127.0.0.1 is not excepted", () => {
  const rows: [variables: Record<string, string>, leaves: boolean][] = [
    [{}, false],
    [{ HTTPS_PROXY: "http://192.0.2.1" }, false],
    [{ HTTP_PROXY: "http://192.0.2.1" }, true],
    [{ http_proxy: "http://192.0.2.1" }, true],
    [{ ALL_PROXY: "http://192.0.2.1" }, true],
    [{ HTTP_PROXY: "http://192.0.2.1", NO_PROXY: "example.test" }, true],
    [{ HTTP_PROXY: "http://192.0.2.1", NO_PROXY: "*" }, true],
    [{ HTTP_PROXY: "http://192.0.2.1", NO_PROXY: "example.test, 127.0.0.1" }, false],
    [{ HTTP_PROXY: "http://192.0.2.1", no_proxy: "127.0.0.0/8" }, false],
  ];
  for (const [variables, leaves] of rows) {
    const env = (name: string) => variables[name];
    assertEquals(leavesMachine({ usesProxyVariables: true, env }), leaves, JSON.stringify(variables));
    assertEquals(leavesMachine({ usesProxyVariables: false, env }), false);
  }
});
