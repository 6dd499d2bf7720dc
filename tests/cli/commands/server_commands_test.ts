/** The commands `serve`, `demo`, `store` and `health` without a server: help, refusals, exit codes. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { EnvironmentName, Programs, System } from "../../../cli/context.ts";
import { run } from "../../../cli/main.ts";
import { realSystem } from "../../../cli/system.ts";
import { recordedTerminal } from "../../support/recorded_terminal.ts";
import type { Outcome } from "../svc_runner.ts";

async function svc(argv: readonly string[], parts: Partial<System> = {}): Promise<Outcome> {
  const { terminal, seen } = recordedTerminal();
  const env = (name: EnvironmentName) => name === "HOME" ? "/home/ada" : undefined;
  const code = await run(argv, { ...realSystem("0.0.0-test"), os: "linux", env, terminal, ...parts });
  return { code, ...seen };
}

/** Programs that record the command lines of the store; `variables` is the environment. */
function recording(variables: Record<string, string> = {}): Programs & { lines: string[][] } {
  const lines: string[][] = [];
  return {
    lines,
    serve: () => Promise.reject(new Error("not here")),
    environment: () => Promise.resolve((name) => variables[name]),
    store: (argv) => Promise.resolve(lines.push([...argv]) - lines.length),
  };
}

Deno.test("the help lists serve, demo, store and health", async () => {
  const { stdout } = await svc(["--help"]);
  for (const word of ["serve", "demo", "store", "health"]) {
    assert(new RegExp(`^ {2}${word} `, "m").test(stdout), stdout);
  }
  assertStringIncludes((await svc(["serve", "--help"])).stdout, "--public-url <origin>");
  assertStringIncludes((await svc(["sevre"])).stderr, "svc serve");
});

Deno.test("the command alone refuses what needs the server with exit code 2", async () => {
  for (const argv of [["serve"], ["demo"], ["store", "inspect"], ["store", "recover"], ["store", "export"]]) {
    const { code, stderr } = await svc(["--json", ...argv]);
    assertEquals([code, JSON.parse(stderr).error.code], [2, "CLI_NO_SERVER"], argv.join(" "));
  }
});

Deno.test("the work on a store uses the store of serve unless an option or the environment names another", async () => {
  const cases: [argv: string[], variables: Record<string, string>, line: string[]][] = [
    [["store", "inspect"], {}, ["inspect", "--store=/home/ada/.local/share/svc/svc.kv"]],
    [["store", "inspect", "--json"], { KV_URL: "x.kv" }, ["inspect", "--store=x.kv", "--json"]],
    [["store", "recover", "--store", "y.kv"], { KV_URL: "x.kv" }, ["recover", "--store=y.kv"]],
    [["store", "export", "--out", "o", "--store=y", "--json"], {}, ["export", "--store=y", "--out", "o", "--json"]],
    [["store", "import", "--store", "y"], {}, ["import", "--store=y"]],
  ];
  for (const [argv, variables, line] of cases) {
    const programs = recording(variables);
    assertEquals((await svc(argv, { programs })).code, 0);
    assertEquals(programs.lines, [line]);
  }
});

Deno.test("health exits with 0 when the server is ready, 1 when it is not and 5 when nothing answers", async () => {
  const asked: string[] = [];
  const answers = (statuses: Record<string, number>) => ({
    fetch: ((url: string) => {
      asked.push(url);
      const status = statuses[new URL(url).pathname] ?? 404;
      return Promise.resolve(Response.json({ ready: status === 200 }, { status }));
    }) as typeof fetch,
  });
  const cases: [statuses: Record<string, number>, code: number][] = [
    [{ "/readyz": 200 }, 0],
    [{ "/readyz": 503, "/health": 200 }, 1],
    [{ "/readyz": 302 }, 1],
    [{ "/health": 200 }, 1],
  ];
  for (const [statuses, code] of cases) assertEquals((await svc(["health"], answers(statuses))).code, code);
  assertEquals(asked[0], "http://127.0.0.1:8787/readyz");
  const other = await svc(["health"], { fetch: () => Promise.resolve(new Response("<p>Hello")) });
  assertEquals([other.code, other.stdout], [1, "http://127.0.0.1:8787 is NOT ready: no svc server answers there.\n"]);
  const { stdout } = await svc(["health", "--json", "--url", "http://x.example/"], answers({ "/readyz": 200 }));
  assertEquals(JSON.parse(stdout), { url: "http://x.example", ready: true, problem: null });
  const ill = await svc(["health", "--json"], answers({ "/readyz": 503 }));
  assertEquals(JSON.parse(ill.stdout).problem, "it answers with status 503");
  const away = await svc(["health", "--url", "http://127.0.0.1:1"]);
  assertEquals(away.code, 5);
  // It asks the server of --url, also when the configuration names another.
  assertStringIncludes(away.stderr, "Check --url");
  assertEquals((await svc(["health", "--url", "http://127.0.0.1:1/path"])).code, 2);
});
