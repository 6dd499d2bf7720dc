/** config.json: precedence, masking, unknown keys, addresses, damaged files and links. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { PROXY_URL, REGISTRY_URL } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";

const DEFAULT = "http://127.0.0.1:8787";

Deno.test("a flag precedes the environment, the environment the file, and the file the default", async () => {
  await using machine = await Machine.open();
  delete machine.env.SVC_REGISTRY_URL;
  const registryUrl = async () => (await machine.json("config", "get", "registryUrl")).value;
  assertEquals(await registryUrl(), DEFAULT);
  await machine.json("config", "set", "registryUrl", "https://file.example");
  assertEquals(await registryUrl(), "https://file.example");
  machine.env.SVC_REGISTRY_URL = "https://env.example";
  assertEquals(await registryUrl(), "https://env.example");
  const init = await machine.json("config", "init", "--registry-url", REGISTRY_URL);
  assertEquals([init.registryUrl, init.proxyUrl], [REGISTRY_URL, PROXY_URL]);
  assertEquals(JSON.parse(machine.read("config.json")), { registryUrl: REGISTRY_URL, proxyUrl: PROXY_URL });
});

Deno.test("config set, get and show handle values and (not set), and mask the API key", async () => {
  await using machine = await Machine.open();
  for (const key of ["proxyUrl", "apiKey", "humanName"]) {
    assertEquals((await machine.svc("config", "get", key)).stdout, "(not set)\n");
    assertEquals((await machine.json("config", "get", key)).value, null);
  }
  const secret = "svc_pat_0123456789";
  for (const [key, value] of [["proxyUrl", "https://p.example"], ["apiKey", secret], ["humanName", "  Ada  "]]) {
    const { code, stdout } = await machine.svc("config", "set", key ?? "", value ?? "");
    assertEquals([code, stdout.includes(secret)], [0, false]);
  }
  assertEquals((await machine.svc("config", "get", "apiKey")).stdout, `${secret}\n`);
  assertEquals((await machine.svc("config", "get", "humanName")).stdout, "Ada\n");
  const shown = JSON.parse((await machine.svc("config", "show")).stdout);
  const urls = { registryUrl: REGISTRY_URL, proxyUrl: "https://p.example" };
  assertEquals(shown, { ...urls, apiKey: "********", humanName: "Ada" });
  assertEquals(await machine.json("config", "show"), shown);
});

Deno.test("an unknown configuration key is refused, also the name of a built-in property", async (t) => {
  await using machine = await Machine.open();
  for (const key of ["__proto__", "constructor", "registryURL", "", "apikey"]) {
    await t.step(key, async () => {
      for (const argv of [["config", "get", key], ["config", "set", key, "x"]]) {
        await machine.refuses(argv, 2, "CLI_USAGE");
      }
    });
  }
  assertStringIncludes((await machine.failure("config", "get", "registryURL")).message, "Did you mean registryUrl?");
  assertEquals(machine.tree(), {});
});

Deno.test("an address is https, loopback or explicitly allowed; any other one is refused", async (t) => {
  await using machine = await Machine.open();
  const insecure = [
    "http://example.com",
    "http://10.0.0.1:8787",
    "http://127.0.0.1.example.com",
    "http://localhost.evil",
  ];
  const wrong = [
    "ftp://example.com",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "example.com",
    "https://example.com/path",
    "https://example.com?x",
    "https://example.com#x",
    "https://user:pass@example.com",
    "https://user@example.com",
    "https://exa mple.com",
    "https://",
    "",
  ];
  for (const url of insecure) {
    await t.step(url, async () => {
      assertEquals((await machine.failure("config", "set", "registryUrl", url)).code, "CLI_INSECURE_URL");
      for (const argv of [["config", "init"], ["invite", "redeem", "svc_inv_x"]]) {
        await machine.refuses([...argv, "--registry-url", url], 2, "CLI_INSECURE_URL");
      }
      assertEquals((await machine.svc("config", "set", "registryUrl", url, "--allow-insecure")).code, 0);
    });
  }
  for (const url of wrong) {
    await t.step(url, async () => {
      assertEquals((await machine.failure("config", "set", "registryUrl", url)).exit, 2);
      assertEquals((await machine.failure("config", "init", `--registry-url=${url}`)).exit, 2);
    });
  }
  await Deno.remove(machine.path("config.json"));
  const right = ["http://127.0.0.1:1", "http://localhost", "http://[::1]:8787", "https://r.example"];
  for (const url of [...right, "HTTPS://R.example/"]) {
    await t.step(url, async () => {
      await machine.json("config", "set", "registryUrl", url);
      assertEquals(JSON.parse(machine.read("config.json")).registryUrl, new URL(url).origin);
    });
  }
  assertEquals(machine.requests, [], "no request was sent");
});

Deno.test("an insecure address from the environment or the file is refused when it is used", async () => {
  await using machine = await Machine.ofPerson();
  machine.env.SVC_REGISTRY_URL = "http://example.com";
  assertEquals((await machine.failure("api-key", "list")).code, "CLI_INSECURE_URL");
  delete machine.env.SVC_REGISTRY_URL;
  machine.write("config.json", JSON.stringify({ registryUrl: "http://example.com" }));
  assertEquals((await machine.failure("api-key", "list")).code, "CLI_INSECURE_URL");
  assertEquals(machine.requests, []);
});

Deno.test("a damaged config.json is reported and left unchanged", async (t) => {
  await using machine = await Machine.open();
  const cases: [string, string | Uint8Array][] = [
    ["no JSON", "{ registryUrl"],
    ["empty", ""],
    ["10 MiB", " ".repeat(10 * 1024 * 1024)],
    ["no object", '["a"]'],
    ["null", "null"],
    ["a number", '{"apiKey":1}'],
    ["an object", '{"humanName":{}}'],
    ["null as a value", '{"humanName":null}'],
    ["no address", '{"registryUrl":"registry"}'],
    ["an unknown key", '{"registryURL":"https://r.example"}'],
    ["__proto__", '{"__proto__":{"apiKey":"x"}}'],
    ["no UTF-8", new Uint8Array([0x7b, 0xff, 0xfe, 0x7d])],
  ];
  for (const [name, content] of cases) {
    await t.step(name, async () => {
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
      await Deno.writeFile(machine.path("config.json"), bytes);
      for (const words of [["show"], ["get", "apiKey"], ["set", "humanName", "x"], ["init"]]) {
        const { exit, code, stdout } = await machine.failure("config", ...words);
        assertEquals([exit, code, stdout], [1, "CLI_CONFIG_INVALID", ""]);
      }
      assertEquals(await Deno.readFile(machine.path("config.json")), bytes);
    });
  }
  assertEquals(machine.requests, []);
});

Deno.test("config.json is not followed when it is a symbolic link", async (t) => {
  await using machine = await Machine.open();
  const content = '{"humanName":"Target"}';
  machine.write("target.json", content);
  for (const target of ["target.json", "nowhere.json"]) {
    await t.step(target, async () => {
      await Deno.symlink(machine.path(target), machine.path("config.json"));
      for (const argv of [["config", "show"], ["config", "set", "humanName", "x"], ["config", "init"]]) {
        assertEquals((await machine.failure(...argv)).code, "CLI_FILE_UNSAFE");
      }
      assertEquals(machine.tree()["config.json"], `-> ${machine.path(target)}`);
      await Deno.remove(machine.path("config.json"));
    });
  }
  assertEquals(machine.read("target.json"), content);
  assert(!("nowhere.json" in machine.tree()));
});

Deno.test("a configuration folder that is a file, or a link that leads nowhere, is named as such", async () => {
  await using machine = await Machine.open();
  machine.write("file", "x");
  await Deno.symlink(machine.path("nowhere"), machine.path("link"));
  for (const folder of ["file", "link", "file/below"]) {
    machine.env.SVC_CONFIG_DIR = machine.path(folder);
    const part = `${machine.path(folder)} is not a directory`;
    await machine.refuses(["config", "set", "humanName", "x"], 1, "CLI_FILE_UNSAFE", part);
  }
});

Deno.test("config init leaves the same file when it runs twice, and keeps API key and name", async () => {
  await using machine = await Machine.open();
  assertEquals((await machine.json("config", "init")).created, true);
  await machine.json("config", "set", "apiKey", "svc_pat_x");
  const before = machine.tree();
  const { mtime } = await Deno.stat(machine.path("config.json"));
  const again = await machine.json("config", "init");
  assertEquals([again.created, again.changed], [false, false]);
  assertEquals(machine.tree(), before);
  assertEquals((await Deno.stat(machine.path("config.json"))).mtime, mtime);
});

Deno.test("config init without an answer writes missing defaults and reports what is not set", async () => {
  await using machine = await Machine.open();
  const down = "https://down.example";
  await machine.refuses(["config", "init", "--registry-url", down], 5, "CLI_UNREACHABLE");
  assertEquals(JSON.parse(machine.read("config.json")), { registryUrl: down });
  await machine.json("config", "init", "--registry-url", REGISTRY_URL);
  const before = machine.read("config.json");
  await machine.failure("config", "init", "--registry-url", down);
  assertEquals(machine.read("config.json"), before, "a wrong address does not replace a working configuration");
});

Deno.test("concurrent changes are all kept", async () => {
  await using machine = await Machine.open();
  const moving = setInterval(() => machine.world.clock.advance(50), 1);
  await Promise.all([
    machine.json("config", "set", "humanName", "Ada"),
    machine.json("config", "set", "apiKey", "svc_pat_x"),
    machine.json("config", "set", "proxyUrl", "https://p.example"),
    machine.json("config", "set", "registryUrl", "https://r.example"),
  ]);
  clearInterval(moving);
  const keys = Object.keys(JSON.parse(machine.read("config.json")));
  assertEquals(keys, ["registryUrl", "proxyUrl", "apiKey", "humanName"]);
});
