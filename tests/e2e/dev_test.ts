/**
 * Starting a server: the output of `--dev`, the errors of a wrong configuration, and
 * the permissions of the store. `deno task dev` has every permission that the whole story needs.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { startServer as runServer } from "../../deploy.ts";
import { svcHere } from "../cli/connector/people.ts";
import { RegistryClient } from "../support/agent_client.ts";
import {
  bootstrap,
  BOOTSTRAP_SECRET,
  ChildProcess,
  Connector,
  deps,
  freePort,
  messageTo,
  newAgent,
  newId,
  pair,
  placeOf,
  refusedHere,
  refusedStart,
  ROOT,
  SOON_MS,
  startServer,
  startServerHere,
  tempFolder,
  within,
} from "../support/process.ts";
import { steps } from "../support/steps.ts";

Deno.test("the output of --dev has address, pid and next command, and the secret until there is an admin", async (t) => {
  await using folder = await tempFolder();
  const options = { folder: folder.path, args: ["--dev"], env: { PORT: String(freePort()), BOOTSTRAP_SECRET: "" } };
  await t.step("before the first admin: the printed command creates one", async () => {
    await using server = await startServer(options);
    await within(SOON_MS, "the last line", server.stdout.match(/installing anything\.\n/));
    const output = server.stdout.text;
    assertStringIncludes(output, `pid ${server.pid}`);
    const next = / {2}svc (admin bootstrap --bootstrap-secret (\S+) --registry-url (\S+))$/m;
    const [, line = "", secret = "", url = ""] = output.match(next) ?? [];
    assertEquals(url, server.address);
    assert(secret.length >= 32 && !secret.startsWith("-"), output);
    assertStringIncludes(output, `bootstrap secret: ${secret}`);
    const wide = output.split("\n").filter((text) => text.length > 79 && text !== `  svc ${line}`);
    assertEquals(wide, [], "a terminal of 80 columns breaks no word");
    await svcHere(`${folder.path}/config`, line.split(" "));
    assert(!server.stderr.text.includes(secret));
    assertEquals((await server.end()).code, 0);
  });
  await t.step("afterwards: no secret, no command", async () => {
    await using server = await startServer(options);
    await within(SOON_MS, "the pid", server.stdout.match(new RegExp(`pid ${server.pid}`)));
    assertEquals((await server.end()).code, 0);
    assertStringIncludes(
      server.stdout.text,
      `This server has an administrator. To try with an empty one:\n  KV_URL=.data/other.kv npx -y deno@${Deno.version.deno} task dev\n`,
    );
    assert(!/secret|svc admin/.test(server.stdout.text), server.stdout.text);
  });
  await t.step("a secret of the environment is used, and none is made or printed without --dev", async () => {
    await using other = await tempFolder();
    await using server = await startServer({ folder: other.path });
    await bootstrap(placeOf(server));
    assertEquals(server.stdout.text.trim(), `listening on ${server.address}`);
    await using third = await tempFolder();
    await using closed = await startServerHere({ folder: third.path, env: { BOOTSTRAP_SECRET: "" } });
    const response = await fetch(`${closed.address}/v1/admin/bootstrap`, {
      method: "POST",
      headers: { "x-bootstrap-secret": BOOTSTRAP_SECRET },
    });
    assertEquals([response.status, (await response.json()).error.code], [503, "ADMIN_BOOTSTRAP_DISABLED"]);
  });
});

Deno.test("the next command can be pasted when the secret comes from the environment, and does not repeat it", async () => {
  for (const HOST of ["127.0.0.1", "0.0.0.0"]) {
    await using folder = await tempFolder();
    await using server = await startServer({ folder: folder.path, args: ["--dev"], env: { HOST } });
    await within(SOON_MS, "the next command", server.stdout.match(/ {2}svc admin .*\n/));
    const [, line = ""] = server.stdout.text.match(/ {2}svc (.*)$/m) ?? [];
    const { port } = new URL(server.address);
    assertEquals(line, `admin bootstrap --bootstrap-secret - --registry-url http://127.0.0.1:${port}`);
    assert(!server.stdout.text.includes(BOOTSTRAP_SECRET));
  }
});

Deno.test("an address that this machine cannot listen on is refused in one plain line", async () => {
  await using folder = await tempFolder();
  const rows = [["192.0.2.1", "is not an address of this machine"], ["host.invalid", "has no address"]];
  // Deno knows no such host, which differs from one without an address.
  for (const bad of ["127.0.0.1:8787", "a..b"]) rows.push([bad, "is no host name and no address"]);
  for (const [HOST, why] of rows) {
    const message = await refusedHere({ folder: folder.path, env: { HOST: HOST ?? "" } });
    assertMatch(message.split("\n").at(-1) ?? "", new RegExp(`HOST: ${HOST} ${why}`));
  }
});

Deno.test("a server on an address other than loopback warns once that it uses plain http", async () => {
  for (const [HOST, count] of [["0.0.0.0", 1], ["127.0.0.1", 0]] as const) {
    const warnings: unknown[] = [];
    const variables: Record<string, string> = { KV_URL: ":memory:", PORT: String(freePort()), HOST };
    const { stop } = await runServer((name) => variables[name], (_level, event, fields) => {
      if (event === "plain_http") warnings.push(fields?.message);
    });
    await stop();
    assertEquals(warnings.length, count);
    for (const said of warnings) {
      assertMatch(String(said), /anyone who reaches .* leave HOST out to listen on this machine/);
    }
  }
});

Deno.test("a store keeps its issuer: another port or REGISTRY_URL is refused by name", async (t) => {
  await using folder = await tempFolder();
  let address: string;
  {
    await using first = await startServerHere({ folder: folder.path });
    ({ address } = first);
  }
  const others: [name: string, env: Record<string, string>][] = [
    ["any free port", {}],
    ["another port", { PORT: String(freePort()) }],
    ["another REGISTRY_URL", { REGISTRY_URL: "http://registry.example" }],
  ];
  await steps(t, others, async ([, env]) => {
    const message = await refusedHere({ folder: folder.path, env });
    for (const part of ["REGISTRY_URL", address]) assertStringIncludes(message, part);
    // The server would otherwise listen on 8787 by default, so to leave out PORT would not help.
    assertStringIncludes(message, `set PORT=${new URL(address).port} without REGISTRY_URL`);
  });
  await t.step("the same REGISTRY_URL on any free port is fine", async () => {
    await using again = await startServerHere({ folder: folder.path, env: { REGISTRY_URL: address } });
    assertEquals((await new RegistryClient(deps, again.address).metadata()).registryUrl, address);
  });
});

Deno.test({
  name: "only the owner can read the store from its first byte on",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using folder = await tempFolder();
    const inner = `${folder.path}/deep`;
    const seen = new Map<string, Set<number>>();
    const look = async () => {
      for await (const { name } of Deno.readDir(inner)) {
        const { mode } = await Deno.lstat(`${inner}/${name}`);
        seen.set(name, (seen.get(name) ?? new Set()).add((mode ?? 0) & 0o777));
      }
    };
    const starting = startServer({ folder: folder.path, env: { KV_URL: `${inner}/svc.kv` }, isOpen: true });
    let up = false;
    starting.finally(() => up = true).catch(() => {});
    while (!up) await look().catch(() => {});
    await using server = await starting;
    await bootstrap(placeOf(server));
    await look();
    assert(seen.has("svc.kv") && seen.has("svc.kv-wal"), `${[...seen.keys()]}`);
    for (const [name, modes] of seen) assertEquals([...modes], [0o600], name);
    assertEquals(((await Deno.stat(inner)).mode ?? 0) & 0o777, 0o700);
  },
});

Deno.test("deno task dev has every permission that the whole story needs and stops with 0", async () => {
  const folder = `.data/e2e-${newId()}`;
  await using task = new ChildProcess(["task", "dev"], { PORT: "0", KV_URL: `${folder}/svc.kv` });
  let pid = 0;
  try {
    const [, address = ""] = await within(SOON_MS, "it listens", task.stdout.match(/^listening on (\S+)$/m));
    const [, printed = ""] = await within(SOON_MS, "its pid", task.stdout.match(/pid (\d+);/));
    pid = Number(printed);
    const [, secret = ""] = await within(SOON_MS, "the secret", task.stdout.match(/^bootstrap secret: (\S+)$/m));
    const place = { registryUrl: address, proxyUrl: address };
    const { apiKey } = await new RegistryClient(deps, address).bootstrap(secret);
    const [a, b] = [await newAgent(place, apiKey.token, "a"), await newAgent(place, apiKey.token, "b")];
    await pair(a, b);
    const connector = await Connector.open(place, b);
    assertEquals((await a.client.sendMessage(messageTo(b))).delivered, true);
    Deno.kill(pid, "SIGTERM");
    assertEquals((await within(SOON_MS, "the task ends", task.status)).code, 0, task.printed);
    await connector.closed;
    pid = 0;
  } finally {
    if (pid !== 0) Deno.kill(pid, "SIGKILL");
    await Deno.remove(`${ROOT}/${folder}`, { recursive: true }).catch(() => {});
  }
  assert(!/NotCapable|PermissionDenied|Requires \w+ access/.test(task.stderr.text), task.stderr.text);
});

Deno.test("an in-memory store is refused at the start unless it was requested", async (t) => {
  const variable = "DENO_KV_REQUIRES_DISTRIBUTED_DATABASE";
  await using folder = await tempFolder();
  const env = (KV_URL: string, value: string) => ({ folder: folder.path, env: { [variable]: value, KV_URL } });
  const file = `${folder.path}/svc.kv`;
  await t.step("warn, with a file", async () => {
    assertMatch(await refusedHere(env(file, "warn")), /DENO_KV_REQUIRES_DISTRIBUTED_DATABASE: .*memory/);
  });
  await t.step("on Deploy, without a database, with a file or in memory", async () => {
    for (const [url, value] of [["", ""], [file, "warn"], [":memory:", "error"]] as const) {
      const options = env(url, value);
      const message = await refusedHere({ ...options, env: { ...options.env, DENO_DEPLOYMENT_ID: "x" } });
      assertMatch(message, /^ {2}KV_URL: on Deno Deploy, assign a Deno KV database to the app /m);
    }
  });
  await t.step("error, with a file", async () => {
    const { code, stderr } = await refusedStart(env(file, "error"));
    assertEquals(code, 2, stderr);
    assertMatch(stderr, /^Cannot open the store .*no KV database is attached/);
    assert(!/^\s+at /m.test(stderr), stderr);
  });
  await t.step("warn, with :memory:", async () => {
    await using _ = await startServerHere(env(":memory:", "warn"));
  });
});
