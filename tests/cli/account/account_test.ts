/**
 * Accounts: bootstrap, invites, API keys. Secrets are shown once and can be passed without appearing in a command line.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { BOOTSTRAP_SECRET, PROXY_URL, REGISTRY_URL, World } from "../../support/world.ts";
import { bootstrapped, Machine } from "../cli_world.ts";

const times = (text: string, part: string) => text.split(part).length - 1;

Deno.test("admin bootstrap shows the service secret only with --show-service", async (t) => {
  for (const json of [[], ["--json"]]) {
    for (const show of [[], ["--show-service"]]) {
      await t.step([...json, ...show].join(" ") || "without options", async () => {
        await using machine = await Machine.open();
        const line = ["admin", "bootstrap", "--bootstrap-secret", BOOTSTRAP_SECRET, ...json, ...show];
        const { code, stdout, stderr } = await machine.svc(...line);
        assertEquals([code, times(stdout + stderr, "svc_srv_")], [0, show.length], stderr);
      });
    }
  }
});

Deno.test("admin bootstrap saves the key and shows it, and the service secret, once each", async () => {
  await using machine = await Machine.open();
  const { code, stdout, stderr } = await machine.svc(
    ...["admin", "bootstrap", "--show-service", "--bootstrap-secret", BOOTSTRAP_SECRET],
  );
  assertEquals(code, 0, stderr);
  const { apiKey, ...rest } = JSON.parse(machine.read("config.json"));
  assertEquals(rest, { registryUrl: REGISTRY_URL, proxyUrl: PROXY_URL, humanName: "Admin" });
  assertEquals(times(stdout + stderr, apiKey), 1);
  const [secret = ""] = /svc_srv_\S+/.exec(stdout) ?? [];
  assertEquals(times(stdout + stderr, secret), 1);
  assertStringIncludes(stdout, "shown only once");
  assert(!JSON.stringify(machine.tree()).includes(secret), "the service secret is not saved");
  assertStringIncludes(stderr, "Next:");
});

Deno.test("admin bootstrap reports a second run or a wrong secret and changes nothing", async () => {
  await using machine = await bootstrapped();
  const before = machine.tree();
  await machine.refuses(["admin", "bootstrap"], 1, "ADMIN_BOOTSTRAP_ALREADY_COMPLETED", "svc store recover");
  await machine.refuses(
    ["admin", "bootstrap", "--bootstrap-secret", "wrong"],
    3,
    "ADMIN_BOOTSTRAP_UNAUTHORIZED",
    "svc serve",
  );
  assertEquals(machine.tree(), before);
});

Deno.test("a secret can also come from the environment or from standard input", async (t) => {
  await t.step("environment", async () => {
    await using machine = await Machine.open(undefined, { env: { SVC_BOOTSTRAP_SECRET: BOOTSTRAP_SECRET } });
    assertEquals((await machine.svc("admin", "bootstrap")).code, 0);
  });
  await t.step("standard input", async () => {
    await using machine = await Machine.open();
    machine.stdin = `${BOOTSTRAP_SECRET}\n`;
    assertEquals((await machine.svc("admin", "bootstrap", "--bootstrap-secret", "-")).code, 0);
    await using second = await Machine.open(machine.world);
    const { invite } = await machine.json("invite", "create");
    second.stdin = ` ${invite.code}\r\n`;
    assertEquals((await second.svc("invite", "redeem", "-")).code, 0);
    machine.stdin = "svc_pat_\n  piped\n";
    await machine.json("config", "set", "apiKey", "-");
    assertEquals(JSON.parse(machine.read("config.json")).apiKey, "svc_pat_piped");
  });
  await t.step("the code of an invite", async () => {
    await using admin = await bootstrapped();
    const { invite } = await admin.json("invite", "create");
    await using machine = await Machine.open(admin.world, { env: { SVC_INVITE_CODE: invite.code } });
    assertEquals((await machine.svc("invite", "redeem")).code, 0);
  });
  await t.step("no secret, empty standard input, or two secrets from standard input", async () => {
    await using machine = await Machine.open();
    await machine.refuses(["admin", "bootstrap"], 2, "CLI_USAGE", "SVC_BOOTSTRAP_SECRET");
    await machine.refuses(["admin", "bootstrap", "--bootstrap-secret", "-"], 2, "CLI_USAGE", "empty");
    machine.stdin = "x";
    await machine.refuses(["verify", "-", "--request", "-"], 2, "CLI_USAGE");
    assertEquals(machine.requests, []);
  });
});

Deno.test("a secret is not spent where its account cannot be saved, and a key is shown once when saving fails later", async (t) => {
  const commands: [string, (admin: Machine) => Promise<string[]>][] = [
    ["bootstrap", () => Promise.resolve(["admin", "bootstrap", "--bootstrap-secret", BOOTSTRAP_SECRET])],
    ["join", async (admin) => ["join", (await admin.json("invite", "create")).joinLink]],
    ["redeem", async (admin) => ["invite", "redeem", (await admin.json("invite", "create")).invite.code]],
  ];
  const places: [string, string, (machine: Machine) => Promise<string>][] = [
    ["below a file", "CLI_FILE_UNSAFE", async (machine) => {
      await Deno.writeTextFile(machine.path("file"), "");
      return machine.path("file/config");
    }],
    ["below a file that cannot have children", "CLI_FILE_UNSAFE", () => Promise.resolve("/dev/null/config")],
    ["a folder in the place of config.json", "CLI_SAVE_FAILED", async (machine) => {
      await Deno.mkdir(machine.path("config.json/folder"), { recursive: true });
      return machine.dir;
    }],
  ];
  for (const [command, argvOf] of commands) {
    await t.step(command, async () => {
      await using world = await World.open();
      await using admin = command === "bootstrap" ? await Machine.open(world) : await bootstrapped(world);
      const argv = [...await argvOf(admin), "--json"];
      for (const [place, refused, dirOf] of places) {
        await using machine = await Machine.open(world);
        const { code, stdout, stderr } = await machine.svc(...argv, "--config-dir", await dirOf(machine));
        assertEquals([code, stdout, JSON.parse(stderr).error.code], [1, "", refused], place);
      }
      await using machine = await Machine.open(world);
      const { fetch } = machine;
      machine.fetch = async (input: RequestInfo | URL, init?: RequestInit) => {
        if (init?.method === "POST") await Deno.mkdir(machine.path("config.json/folder"), { recursive: true });
        return await fetch(input, init);
      };
      const { code, stdout, stderr } = await machine.svc(...argv);
      assertEquals(code, 1);
      const { apiKey } = JSON.parse(stdout);
      assertEquals([times(stdout, apiKey.token), times(stderr, apiKey.token)], [1, 0]);
      const { error } = JSON.parse(stderr);
      assertEquals(error.code, "CLI_SAVE_FAILED");
      assertStringIncludes(error.message, "svc config set apiKey -");
      assertEquals((await world.client.me(apiKey.token)).apiKey.id, apiKey.id, "the key works");
    });
  }
});

Deno.test("invite redeem makes an account once and reports a used invite the second time", async () => {
  await using admin = await bootstrapped();
  await using machine = await Machine.open(admin.world);
  const { invite } = await admin.json("invite", "create");
  const first = await machine.json("invite", "redeem", invite.code, "--display-name", "Bob");
  assertEquals([first.human.displayName, first.human.role], ["Bob", "user"]);
  const config = JSON.parse(machine.read("config.json"));
  assertEquals(config, {
    registryUrl: REGISTRY_URL,
    proxyUrl: PROXY_URL,
    apiKey: first.apiKey.token,
    humanName: "Bob",
  });
  const before = machine.tree();
  await machine.refuses(["invite", "redeem", invite.code], 1, "INVITE_REDEEM_ALREADY_USED");
  assertEquals(machine.tree(), before);
});

Deno.test("invite redeem takes the name from the configuration and warns when it replaces a saved key", async () => {
  await using admin = await bootstrapped();
  await admin.json("config", "set", "humanName", "Grace");
  const { invite } = await admin.json("invite", "create");
  const old = JSON.parse(admin.read("config.json")).apiKey as string;
  const { stdout, stderr } = await admin.svc("invite", "redeem", invite.code);
  assertStringIncludes(stdout, "Grace has an account");
  assertStringIncludes(stderr, `${old.slice(0, 12)}…`);
  assert(!stderr.includes(old));
});

Deno.test("invite create needs an admin", async () => {
  await using machine = await Machine.ofPerson();
  await machine.refuses(["invite", "create"], 3, "INVITE_CREATE_FORBIDDEN");
});

Deno.test("invite create accepts and refuses the same expiry times as the registry", async () => {
  await using admin = await bootstrapped();
  // deno-fmt-ignore
  const forms = [
    "2026-12-31T12:00:00Z", "2026-12-31t12:00:00z", "2026-12-31T12:00:00+00:00", "2026-12-31T12:00:00-11:59",
    "2026-12-31T12:00:00.1Z", "2026-12-31T12:00:00.123456789Z", "2028-02-29T00:00:00Z", "9999-12-31T23:59:59Z",
    "2026-12-31T23:59:59+23:59",
    "2030-02-31T00:00:00Z", "1", "tomorrow 5", "2030", "2030-01", "2030-01-01", "2030-01-01T00:00:00", "2030-W01-1",
    "2030-001", "2030-01-01T00:00Z", "2030-01-01 00:00:00Z", "2030-01-01T24:00:00Z", "2030-01-01T00:60:00Z",
    "2030-01-01T00:00:60Z", "2030-01-01T00:00:00+99:99", "2030-01-01T00:00:00+0000", "2030-01-01T00:00:00+00",
    "275760-09-13T00:00:00Z", "+002030-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "2030-13-01T00:00:00Z",
    "2030-00-01T00:00:00Z", "2030-01-00T00:00:00Z", "2029-02-29T00:00:00Z", "2030-01-01T00:00:00.Z",
    "2030-01-01T00:00:00.1234567890Z", "2030-01-01T00:00:00 Z", " 2030-01-01T00:00:00Z", "٢٠٣٠-01-01T00:00:00Z", "now",
    "1893456000",
  ];
  const { apiKey } = JSON.parse(admin.read("config.json"));
  let taken = 0;
  for (const form of forms) {
    const response = await admin.world.ask("POST", "/v1/invites", { apiKey, body: { expiresAt: form } });
    await response.body?.cancel();
    const sent = admin.requests.length;
    const { code } = await admin.svc("invite", "create", "--expires-at", form);
    assertEquals(code === 0, response.status === 201, `${form}: ${code} here, ${response.status} there`);
    if (code === 0) taken++;
    else assertEquals([code, admin.requests.length], [2, sent], `${form} is refused before any request`);
  }
  assertEquals([forms.length, taken], [40, 9]);
  await admin.refuses(["invite", "create", "--expires-at", "2020-01-01T00:00:00Z"], 1, "INVITE_CREATE_INVALID");
});

Deno.test("of two accounts that are made at once in one folder, the later one says that it replaces the key of the other", async () => {
  await using admin = await bootstrapped();
  await using machine = await Machine.open(admin.world);
  const codes = [];
  for (let i = 0; i < 2; i++) codes.push((await admin.json("invite", "create")).invite.code);
  // Both invites are redeemed before either key is saved.
  const { promise: redeemed, resolve } = Promise.withResolvers<void>();
  let answers = 0, running = true;
  machine.fetch = async (input, init) => {
    const request = new Request(input, init), answer = await machine.world.fetch(request);
    if (!request.url.endsWith("/redeem")) return answer;
    if (++answers === 2) resolve();
    await redeemed;
    return answer;
  };
  const both = Promise.all(codes.map((code) => machine.svc("invite", "redeem", code))).finally(() => running = false);
  while (running) await admin.world.clock.advance(100);
  const ran = await both;
  assertEquals(ran.map(({ code }) => code), [0, 0]);
  assertEquals(ran.filter(({ stderr }) => stderr.includes("It replaces the previously saved key")).length, 1);
});

Deno.test("api-key create shows the token once and does not save it", async () => {
  await using machine = await bootstrapped();
  const { code, stdout, stderr } = await machine.svc("api-key", "create", "--name", "ci");
  const [token = ""] = /svc_pat_\S+/.exec(stdout) ?? [];
  assertEquals([code, times(stdout, token), times(stderr, token)], [0, 1, 0]);
  assertStringIncludes(stdout, "shown only once");
  assert(!JSON.stringify(machine.tree()).includes(token));
  assertEquals((await machine.failure("api-key", "create")).exit, 2);
});

Deno.test("api-key list shows no token, and api-key revoke ends one key only", async () => {
  await using machine = await bootstrapped();
  const { apiKey } = await machine.json("api-key", "create", "--name", "ci");
  const listed = await machine.json("api-key", "list");
  assertEquals(listed.apiKeys.map((key: { name: string }) => key.name), ["ci", "bootstrap-admin"]);
  assert(!JSON.stringify(listed).includes("svc_pat_"));
  for (let i = 0; i < 2; i++) assertEquals((await machine.json("api-key", "revoke", apiKey.id)).status, "revoked");
  assertEquals((await machine.failure("api-key", "list", "--api-key", apiKey.token)).code, "API_KEY_REVOKED");
  await machine.json("api-key", "list");
  assertEquals((await machine.failure("api-key", "revoke", "01KHYQ5H00AAAAAAAAAAAAAAAA")).exit, 4);
  assertEquals((await machine.failure("api-key", "revoke", "nonsense")).exit, 2);
});

Deno.test("api-key revoke asks before it revokes the only active key, and only then", async () => {
  await using machine = await bootstrapped();
  const [{ id }] = (await machine.json("api-key", "list")).apiKeys;
  const { apiKey } = await machine.json("api-key", "create", "--name", "ci");
  assertEquals((await machine.json("api-key", "revoke", apiKey.id)).status, "revoked");
  await machine.refuses(["api-key", "revoke", id], 2, "CLI_USAGE", "--yes");
  await machine.json("api-key", "list");
  assertEquals((await machine.json("api-key", "revoke", id.slice(-6), "--yes")).status, "revoked");
  assertEquals((await machine.failure("api-key", "list")).code, "API_KEY_REVOKED");
});

Deno.test("a command without an API key explains how to get one and sends no request", async () => {
  await using machine = await Machine.open();
  for (const argv of [["api-key", "list"], ["agent", "create", "a"], ["agent", "list"], ["invite", "create"]]) {
    await machine.refuses(argv, 3, "API_KEY_MISSING", "paste the link of an invite into svc join -");
  }
  assertEquals([machine.requests, machine.tree()], [[], {}]);
});

Deno.test("admin service and admin keys create, list without secrets, rotate and revoke", async () => {
  await using machine = await Machine.ofAdmin();
  const { internalService: made } = await machine.json("admin", "service", "create", "proxy-eu", "--scope", "crl.read");
  assertEquals(made.scopes, ["crl.read"]);
  const { internalService: all } = await machine.json("admin", "service", "create", "proxy-us");
  assertEquals(all.scopes, ["identity.read", "auth.validate", "crl.read"]);
  const listed = await machine.json("admin", "service", "list");
  assertEquals(listed.internalServices.length, 3);
  assert(!JSON.stringify(listed).includes("svc_srv_"));
  const { internalService: rotated } = await machine.json("admin", "service", "rotate", made.id);
  assert(rotated.secret !== made.secret);
  // After a rotation whose answer was lost, the proxy has an older secret, which the next rotation ends.
  const { stdout } = await machine.svc("admin", "service", "rotate", made.id);
  assertStringIncludes(stdout, "The one before it works for another hour, and older ones no longer.");
  assertEquals((await machine.json("admin", "service", "revoke", made.id)).status, "revoked");
  assertEquals((await machine.failure("admin", "service", "rotate", "nonsense")).exit, 4);
  await machine.refuses(["admin", "service", "create", "proxy-us"], 1, "INTERNAL_SERVICE_ALREADY_EXISTS");
  const { kid, retiredKid } = await machine.json("admin", "keys", "rotate");
  assert(kid !== retiredKid);
  await using member = await Machine.ofPerson(machine.world);
  assertEquals((await member.failure("admin", "keys", "rotate")).code, "ADMIN_REQUIRED");
  assertEquals((await member.failure("admin", "service", "list")).exit, 3);
});
