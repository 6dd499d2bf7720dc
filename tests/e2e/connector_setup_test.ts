/**
 * `install`, `provider setup` and its undo as a program with a home of its own (D-90). The real OpenClaw:
 * connector_openclaw_test.ts.
 */
import { assert, assertEquals } from "@std/assert";
import { attempt, denoDir, svc } from "../cli/connector/people.ts";
import { Service, tempFolder } from "../support/process.ts";

Deno.test("install and provider setup can be repeated, keep other settings, and can be undone", async (t) => {
  await using service = await Service.open();
  await using folder = await tempFolder();
  const [dir, home] = [`${folder.path}/svc`, `${folder.path}/home`];
  const settings = `${home}/.openclaw/openclaw.json`;
  await Deno.mkdir(`${home}/.openclaw`, { recursive: true });
  // A gateway with enabled hooks refuses a GET by its method.
  await using gateway = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, ({ url }) => {
    const { pathname } = new URL(url);
    return new Response(null, { status: pathname === "/readyz" ? 200 : pathname === "/hooks/agent" ? 405 : 404 });
  });
  const { port } = gateway.addr;
  const original = `{\n  "gateway": { "port": ${port} },\n  "mine": [1, 2]\n}\n`;
  await Deno.writeTextFile(settings, original);
  const env = { HOME: home, SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url, DENO_DIR: denoDir() };
  await svc(dir, ["config", "init"], env);
  await svc(dir, ["agent", "create", "alpha"], env);
  const runtimeFile = () => JSON.parse(Deno.readTextFileSync(`${dir}/runtime.json`));

  await t.step("install finds the runtime and gives its reasons", async () => {
    const list = await svc(dir, ["install", "--list"], env);
    assertEquals([list.platforms[0].platform, list.platforms[0].confidence], ["openclaw", "medium"]);
    for (let n = 0; n < 2; n++) {
      const installed = await svc(dir, ["install"], env);
      assertEquals([installed.platform, installed.url], ["openclaw", `http://127.0.0.1:${port}/hooks/agent`]);
    }
    assertEquals(Deno.readTextFileSync(settings), original);
  });

  await t.step("setup writes accepted settings and changes nothing the second time", async () => {
    const first = await svc(dir, ["provider", "setup", "--for", "openclaw"], env);
    assertEquals(first.changed, [settings]);
    const { hooks, mine } = JSON.parse(Deno.readTextFileSync(settings));
    assertEquals([hooks.enabled, hooks.token, mine], [true, runtimeFile().webhookToken, [1, 2]]);
    assert(!JSON.stringify(first).includes(hooks.token), "no secret in the output");
    assertEquals((await svc(dir, ["provider", "setup", "--for", "openclaw"], env)).changed, []);
  });

  await t.step(
    "doctor reads the runtime's own files, also with --platform-state-dir, and changes none",
    async () => {
      const other = `${folder.path}/other`;
      await Deno.mkdir(other);
      await Deno.writeTextFile(`${other}/openclaw.json`, '{"hooks":{"enabled":true,"token":"another"}}');
      const hook = async (...args: string[]) => {
        const line = ["provider", "doctor", "--skip-connector-runtime", ...args];
        const { code, result } = await attempt(dir, line, env);
        const { ok, seen } = (result.checks as { name: string; ok: boolean; seen: string }[])
          .find(({ name }) => name === "hook") ?? {};
        return [code, ok, seen];
      };
      const before = await Promise.all([settings, `${other}/openclaw.json`].map((path) => Deno.stat(path)));
      assertEquals(await hook(), [0, true, `takes messages at http://127.0.0.1:${port}/hooks/agent`]);
      assertEquals(await hook("--platform-state-dir", other), [
        1,
        false,
        `the token is not that of ${other}/openclaw.json`,
      ]);
      const after = await Promise.all([settings, `${other}/openclaw.json`].map((path) => Deno.stat(path)));
      assertEquals(after.map(({ mtime, size }) => [mtime, size]), before.map(({ mtime, size }) => [mtime, size]));
    },
  );

  await t.step("undo restores every byte and can be repeated", async () => {
    assertEquals((await svc(dir, ["provider", "setup", "--for", "openclaw", "--undo"], env)).restored, [settings]);
    assertEquals(Deno.readTextFileSync(settings), original);
    assertEquals((await svc(dir, ["provider", "setup", "--for", "openclaw", "--undo"], env)).restored, []);
  });
});
