/** What the client library takes from its runtime: processes, and proxy variables that would take secrets off the machine. */
import { assertEquals } from "@std/assert";
import { hostSystem, leavesMachine } from "../../../shared/client/system.ts";

Deno.test("a process that exists is running, and an ID without a process is not", () => {
  const { isRunning, usesProxyVariables, fetch } = hostSystem();
  assertEquals([isRunning(Deno.pid), isRunning(2 ** 30)], [true, false]);
  assertEquals([usesProxyVariables, fetch], [true, globalThis.fetch]);
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
