/**
 * The permission sets of deno.json: each holds exactly what its program reads, and each task uses its set. A
 * variable that a program reads and its set lacks would count as unset.
 */
import { assertEquals } from "@std/assert";
import { ENVIRONMENT } from "../../cli/context.ts";
import { SERVER_VARIABLES } from "../support/server_variables.ts";

type Permission = boolean | string[];
type PermissionSet = Record<string, Permission>;

const ROOT = new URL("../../", import.meta.url);
const text = await Deno.readTextFile(new URL("deno.json", ROOT));
const { permissions, tasks } = JSON.parse(text) as {
  permissions: Record<string, PermissionSet>;
  tasks: Record<string, { command: string }>;
};

/** Variables that Deno or Deno Deploy defines, and that the server reads. */
const PLATFORM_VARIABLES = [
  "DENO_DEPLOYMENT_ID",
  "DENO_KV_REQUIRES_DISTRIBUTED_DATABASE",
  "DENO_KV_DEFAULT_PATH",
];

const sorted = (names: Permission | readonly string[] | undefined) => [...names as readonly string[]].sort();

/** The variable that the library of WebSockets reads. */
const WEBSOCKET_VARIABLE = "WS_NO_BUFFER_UTIL";

// Deno itself reads the token of a store over the network.
const production = [...SERVER_VARIABLES, ...PLATFORM_VARIABLES, "DENO_KV_ACCESS_TOKEN", "NO_PROXY", "no_proxy"];
const ofCommand = [...ENVIRONMENT, WEBSOCKET_VARIABLE];

Deno.test("the server's set holds every variable that the server reads and no other", () => {
  assertEquals(sorted(permissions.server?.env), sorted(production));
});

Deno.test("the set of the whole program holds every variable that command and server read and no other", () => {
  assertEquals(sorted(permissions.svc?.env), sorted([...new Set([...ofCommand, ...production])]));
});

Deno.test("the set of a connector has no variable of the server, and starts only what finds the owner of a port", () => {
  const { env = [], ...rights } = permissions.connector ?? {};
  const { env: _, ...ofSvc } = permissions.svc ?? {};
  assertEquals(rights, { ...ofSvc, run: ["grep", "lsof"], sys: ["uid", "statfs"] });
  assertEquals(sorted(env), sorted(ofCommand));
});

Deno.test("no set of a server starts programs, and only the server's set has the whole network", () => {
  for (const name of ["server", "demo"]) {
    const whole = Object.entries(permissions[name] ?? {}).filter(([, value]) => value === true).map(([kind]) => kind);
    assertEquals([name, permissions[name]?.run, whole], [name, undefined, name === "server" ? ["net"] : []]);
  }
  const wildcards = Object.values(permissions).flatMap(({ env }) => sorted(env ?? [])).filter((one) =>
    one.includes("*")
  );
  assertEquals(wildcards, []);
});

Deno.test("the demo's set opens one folder, in which its task keeps the files", () => {
  const { read, write } = permissions.demo ?? {};
  assertEquals([read, write], [[".data/demo"], [".data/demo"]]);
  assertEquals(tasks.demo?.command.split(" ").slice(-3), ["demo", "--temp-dir", ".data/demo"]);
});

Deno.test("each program task names its permission set and prints no warning about it", () => {
  const used = { dev: "server", start: "server", demo: "demo", cli: "svc", store: "server" };
  for (const [task, set] of Object.entries(used)) {
    const words = tasks[task]?.command.split(" ") ?? [];
    assertEquals(["--quiet", "--no-prompt", `-P=${set}`].filter((word) => !words.includes(word)), [], task);
  }
});

Deno.test("no line of deno.json but a command, which JSON cannot break, is longer than 120 characters", () => {
  const isLong = (line: string) => line.length > 120 && !line.trimStart().startsWith('"command": ');
  assertEquals(text.split("\n").filter(isLong), []);
});
