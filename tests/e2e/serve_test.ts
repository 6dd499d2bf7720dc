/**
 * `svc serve` as a process: its first line, its stop, its refusals, and the rights that it gives up. Also an address
 * that it may not use. Permission set `svc`, as the task, the binary and the package.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { svcHere } from "../cli/connector/people.ts";
import { ChildProcess, freePort, SOON_MS, tempFolder, within } from "../support/process.ts";

const SVC = ["run", "--quiet", "--no-prompt", "-P=svc", "svc.ts"];
const START_MS = 60_000;

async function serve(args: readonly string[], env: Record<string, string> = {}) {
  const child = new ChildProcess([...SVC, "serve", "--port", "0", ...args], env);
  try {
    const [, address = ""] = await within(
      START_MS,
      "it listens",
      child.stdout.match(/^(?:listening on |\{"listening":")(http:[^"\s]+)/m),
    );
    return { child, address };
  } catch (cause) {
    await child[Symbol.asyncDispose]();
    throw new Error(child.printed, { cause });
  }
}

/** Runs a command line that must end by itself. */
async function ended(args: readonly string[], env: Record<string, string> = {}, program = SVC) {
  await using child = new ChildProcess([...program, ...args], env);
  const { code } = await within(START_MS, "it ends", child.status);
  return { code, stdout: child.stdout.text, stderr: child.stderr.text };
}

Deno.test("serve listens, answers, refuses a second one by its pid and ends with 0 on SIGTERM", async (t) => {
  await using folder = await tempFolder();
  const store = `${folder.path}/missing/folder/svc.kv`;
  const own = ["--store", store, "--public-url", "http://127.0.0.1:9"];
  const { child, address } = await serve(own);
  await using _ = child;
  await t.step("its health is 200 and its issuer is the public URL", async () => {
    const health = await fetch(`${address}/health`);
    assertEquals((await health.json()).ready, true);
    const metadata = await (await fetch(`${address}/v1/metadata`)).json();
    assertEquals([metadata.registryUrl, metadata.proxyUrl], ["http://127.0.0.1:9", "http://127.0.0.1:9"]);
  });
  await t.step("it prints store, pid and the command that makes the admin", async () => {
    await within(SOON_MS, "the command", child.stdout.match(/svc admin bootstrap .*\n/));
    for (const part of [store, String(child.pid), "Every identity will name http://127.0.0.1:9"]) {
      assertStringIncludes(child.stdout.text, part);
    }
    const [, line = ""] = child.stdout.text.match(/svc (admin bootstrap .*)$/m) ?? [];
    const config = `${folder.path}/config`;
    await svcHere(config, line.split(" "));
  });
  await t.step("a second server on its store is refused with its pid, in JSON on request", async () => {
    const { code, stdout, stderr } = await ended(["serve", "--json", ...own, "--port", "0"]);
    assertEquals([code, stdout], [2, ""]);
    const { error } = JSON.parse(stderr);
    assertEquals(error.code, "CLI_SERVER_REFUSED");
    assertStringIncludes(error.message, `process ${child.pid}`);
    const { stderr: worked } = await ended(["store", "inspect", "--store", store]);
    assertStringIncludes(worked, "Stop that one, or set --store to another path.");
  });
  await t.step("a second server on its port is refused by name", async () => {
    const { port } = new URL(address);
    const { code, stderr } = await ended(["serve", "--store", ":memory:", "--port", port]);
    assertEquals(code, 2);
    assertMatch(
      stderr,
      new RegExp(`--port: 127\\.0\\.0\\.1:${port} is in use; stop what listens there, or set another --port`),
    );
  });
  await t.step("a wrong configuration is refused by options, and by variables that no option sets", async () => {
    const wrong = ["--service", "x", "--metrics", "x", "--environment", "production", "--store", ":memory:"];
    const { stderr } = await ended(["serve", ...wrong], { QUOTA_AGENTS: "x" });
    for (const name of ["--service", "--metrics", "QUOTA_AGENTS", "REGISTRY_URL"]) {
      assertStringIncludes(stderr, `  ${name}: `);
    }
    const together = await ended(["serve", ...wrong.slice(4)]);
    const line = "  --public-url: must be an https origin when --environment is production\n";
    assertEquals(together.stderr.split(line).length, 2, together.stderr);
    assert(!/[A-Z]_URL/.test(together.stderr), together.stderr);
    const file = `${folder.path}/EXPORT_HOST`;
    await Deno.writeTextFile(file, "");
    const { stderr: ofPath } = await ended(["serve", "--store", `${file}/PORT`]);
    assertStringIncludes(ofPath, `${file}/PORT`);
  });
  await t.step("SIGTERM ends it with 0", async () => {
    assertEquals((await child.end("SIGTERM")).code, 0, child.printed);
  });
  await t.step(
    "the next start prints no secret, because there is an admin, and with --console it has the console",
    async () => {
      const again = await serve([...own, "--console"]);
      await using _ = again.child;
      await within(SOON_MS, "its pid", again.child.stdout.match(new RegExp(`pid +${again.child.pid}`)));
      const page = await fetch(`${again.address}/console`);
      assertStringIncludes(await page.text(), "svc admin open");
      assertEquals((await again.child.end()).code, 0);
      assert(!/secret|identity/.test(again.child.stdout.text), again.child.stdout.text);
    },
  );
});

Deno.test("a server that may not listen on an address says so in one sentence with exit code 2", async () => {
  const HOST = "0.0.0.0";
  const env = { HOST, PORT: String(freePort()), KV_URL: ":memory:" };
  const expected = new RegExp(
    `(?:HOST|--host): this process may not listen on 0\\.0\\.0\\.0:${env.PORT}\\. ` +
      `Use svc serve or deno task start, or add --allow-net=0\\.0\\.0\\.0:${env.PORT}`,
  );
  const narrow = (set: string) => ["run", "--quiet", "--no-prompt", `-P=${set}`, "--allow-net=127.0.0.1"];
  for (const [args, set] of [[["deploy.ts", "--dev"], "server"], [["svc.ts", "serve"], "svc"]] as const) {
    const { code, stdout, stderr } = await ended(args, env, narrow(set));
    assertEquals([code, stdout], [2, ""], stderr);
    assertMatch(stderr, expected);
    assert(!/^\s+at |Error/m.test(stderr), stderr);
  }
});

Deno.test("a server gives up the right to start programs and to read facts of the system", async () => {
  const program = `
    import { startNoPrograms } from ${JSON.stringify(new URL("../../deploy.ts", import.meta.url).href)};
    const tries = [() => new Deno.Command("ps").outputSync(), () => Deno.uid()];
    const states = () => tries.map((one) => { try { one(); return "allowed"; } catch (error) { return error.name; } });
    const before = states();
    await startNoPrograms();
    console.log(JSON.stringify([before, states()]));`;
  await using folder = await tempFolder();
  const path = `${folder.path}/tries.ts`;
  await Deno.writeTextFile(path, program);
  const { stdout, stderr } = await ended([], {}, [
    "run",
    "--quiet",
    "--no-prompt",
    "--no-check",
    `--config=${new URL("../../deno.json", import.meta.url).pathname}`,
    "-P=svc",
    path,
  ]);
  assert(stdout !== "", stderr);
  assertEquals(JSON.parse(stdout)[1], ["NotCapable", "NotCapable"]);
  assertEquals(JSON.parse(stdout)[0][1], "allowed");
});
