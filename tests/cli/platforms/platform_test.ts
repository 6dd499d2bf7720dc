/** The rows of the platform table: the requests that the runtimes accept, detection, set-up and undo. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "fast-check";
import { anyText, jsonText } from "../../shared/protocol/arbitraries.ts";
import { detectAll, likeliest, PLATFORMS } from "../../../cli/platforms/table.ts";
import {
  type Machine,
  PLATFORM_IDS,
  PUSH_PLATFORM_IDS,
  type PushPlatformId,
  type RuntimeMessage,
} from "../../../cli/platforms/platform.ts";
import { parseSettings, readEnvFile, withEnvValues, withMember } from "../../../cli/platforms/settings.ts";
import { parseHookPath, parseHookToken, parseRuntimeUrl } from "../../../cli/connector/runtime/runtime.ts";
import { emptyRuntimeFile, runtimeTarget, withTarget } from "../../../cli/connector/runtime/runtime_file.ts";
import { CliError } from "../../../cli/errors.ts";
import { withIdentityBlock } from "../../../shared/protocol/identity_block.ts";
import { IDENTITY, runtimeMessage } from "./received_message.ts";

const SENDER = IDENTITY.agentDid;
const PAYLOAD = '{"message":"hi","n":12345678901234567890}';

const target = (platform: PushPlatformId, hookToken: string | null = "s3cret") => ({
  platform,
  hookToken,
  ...PLATFORMS[platform].defaults,
});

const request = (platform: PushPlatformId, message: Partial<RuntimeMessage> = {}, token: string | null = "s3cret") =>
  PLATFORMS[platform].request(runtimeMessage(PAYLOAD, message), target(platform, token), 1_700_000_000);

const env = (values: Record<string, string> = {}) => ({ env: (name: string) => values[name] });

/** A machine with given files, answers and programs. */
function machine(
  files: Record<string, string> = {},
  answers: Record<string, { status: number; body: string }> = {},
  programs: Record<string, string> = {},
  env: Record<string, string> = {},
): Machine {
  return {
    home: "/home/me",
    env: (name) => env[name],
    ask: (url) => Promise.resolve(answers[url] ?? null),
    run: (program) => Promise.resolve(programs[program] ?? null),
    read: (path) => Promise.resolve(files[path] ?? null),
    exists: (path) => Promise.resolve(Object.keys(files).some((file) => file === path || file.startsWith(`${path}/`))),
  };
}

Deno.test("every runtime gets the headers that say which message a message answers and that it is automatic", async () => {
  for (const platform of PUSH_PLATFORM_IDS) {
    const { headers } = await request(platform, { inReplyTo: "request-0", auto: true, conversationId: "c" });
    const names = ["x-svc-in-reply-to", "x-svc-auto", "x-svc-conversation-id"];
    assertEquals(names.map((name) => headers[name]), ["request-0", "1", "c"], platform);
    const plain = Object.keys((await request(platform)).headers);
    assertEquals(names.filter((name) => plain.includes(name)), [], platform);
  }
});

Deno.test("generic gets the payload unchanged, openclaw its text, both with their token", async (t) => {
  for (const platform of ["openclaw", "generic"] as const) {
    await t.step(platform, async () => {
      const { headers, body } = await request(platform);
      const expected = platform === "generic"
        ? PAYLOAD
        : JSON.stringify({ message: withIdentityBlock("hi", IDENTITY) });
      assertEquals([body, headers.Authorization], [expected, "Bearer s3cret"]);
      assertEquals([headers["Idempotency-Key"], headers["x-request-id"]], ["key-of-this-message", "request-1"]);
      assertEquals((await request(platform, {}, null)).headers.Authorization, undefined);
    });
  }
});

Deno.test("openclaw and nanobot get no member of a peer's payload except its text", async (t) => {
  // The members that `POST /hooks/agent` of OpenClaw would accept.
  const steering = {
    ...{ name: "x", agentId: "admin", sessionKey: "agent:main:main", sessionMode: "persistent", wakeMode: "now" },
    ...{ deliver: true, channel: "telegram", to: "+1", accountId: "a", model: "m", thinking: "high" },
    ...{ timeoutSeconds: 9, waitForCompletion: true, idempotencyKey: "k", url: "http://evil.example", headers: {} },
    ...{ messages: [], session_id: "other", stream: true, tools: [], metadata: {}, __proto__: null },
  };
  const payloads = ["hi", undefined].map((message) => JSON.stringify({ ...steering, message }));
  payloads.push('{"message":"hi","__proto__":{"deliver":true},"constructor":1}', '[{"deliver":true}]');
  for (const payload of payloads) {
    await t.step(`openclaw ${payload.slice(-40)}`, async () => {
      assertEquals(Object.keys(JSON.parse((await request("openclaw", { payload })).body)), ["message"]);
    });
    await t.step(`nanobot ${payload.slice(-40)}`, async () => {
      const body = JSON.parse((await request("nanobot", { payload })).body);
      assertEquals([Object.keys(body), body.session_id], [["messages", "session_id"], SENDER]);
      assertEquals(body.messages.map((one: object) => Object.keys(one)), [["role", "content"]]);
      assertEquals(body.messages[0].role, "user");
    });
  }
});

Deno.test("openclaw gets text with the sender in front, also for a payload without a message", async () => {
  for (const payload of ['{"x":1}', "[1]", '"text"', '{"message":"  "}', '{"message":7}', "null"]) {
    const { message } = JSON.parse((await request("openclaw", { payload })).body) as { message: string };
    assert(message.startsWith("[Svc Identity]\nagentDid: did:svc:") && message.endsWith(payload), message);
  }
});

Deno.test("hermes gets a signature over time and body, and an ID of its own against duplicates", async () => {
  const { headers, body } = await request("hermes");
  const key = await crypto.subtle.importKey(
    "raw",
    new TextEncoder().encode("s3cret"),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["verify"],
  );
  const hex = headers["X-Webhook-Signature-V2"] ?? "";
  const signature = Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));
  const signed = new TextEncoder().encode(`1700000000.${body}`);
  assertEquals(await crypto.subtle.verify("HMAC", key, signature, signed), true);
  assertEquals([headers["X-Webhook-Timestamp"], headers["x-request-id"]], ["1700000000", "key-of-this-message"]);
  assertEquals([headers.Authorization, body], [undefined, PAYLOAD]);
  // A prompt reads members of an object; any other payload has none.
  for (const payload of ["[1]", '"text"', "null"]) {
    const { message } = JSON.parse((await request("hermes", { payload })).body) as { message: string };
    assert(message.startsWith("[Svc Identity]\n") && message.endsWith(payload), message);
  }
});

const HEADERS = /^(content-type|authorization|x-request-id|idempotency-key|x-svc-|x-webhook-|a2a-version$)/i;

Deno.test("no header comes from a payload; headers carry only sender, recipient, conversation and ID", async () => {
  const payload = '{"message":"hi","headers":{"authorization":"x"},"x-request-id":"y","idempotency-key":"z"}';
  for (const platform of PUSH_PLATFORM_IDS) {
    const { headers } = await request(platform, { payload });
    assertEquals(headers, (await request(platform, { payload })).headers);
    for (const name of Object.keys(headers)) {
      assert(HEADERS.test(name), name);
    }
    assertEquals(headers["Idempotency-Key"], "key-of-this-message");
  }
});

Deno.test("nanobot gets one user message and a session, and has 120 s to answer", async () => {
  const { body } = await request("nanobot");
  assertEquals(JSON.parse(body), {
    messages: [{ role: "user", content: withIdentityBlock("hi", IDENTITY) }],
    session_id: SENDER,
  });
  // Names of conversations are the peer's choice; two peers never share one.
  const session = async (session: string) => JSON.parse((await request("nanobot", { session })).body).session_id;
  for (const name of ["talk", "did:svc:x:agent:y"]) assertEquals(await session(name), `${SENDER}#${name}`);
  assertEquals(PLATFORMS.nanobot.timeoutMs, 120_000);
});

Deno.test("detection returns reasons and confidence and does not guess between equals", async (t) => {
  const live = { status: 200, body: '{"ok":true,"status":"live"}' };
  const settings = '{"gateway":{"port":19001},"hooks":{"enabled":true,"path":"/h","token":"t"}}';
  await t.step("no runtime", async () => {
    const found = await detectAll(machine());
    assertEquals(found.map(({ platform }) => platform), [...PLATFORM_IDS]);
    assertEquals(new Set(found.map(({ confidence }) => confidence)), new Set(["none"]));
    assertEquals(likeliest(found), null);
  });
  await t.step("the inbox never, and last", async () => {
    const found = await detectAll(machine({ "/home/me/.nanobot/config.json": "{}" }));
    assertEquals(found.map(({ platform }) => platform), ["nanobot", "openclaw", "hermes", "generic", "a2a", "inbox"]);
  });
  await t.step("openclaw by its settings, its port and its program", async () => {
    const files = { "/home/me/.openclaw/openclaw.json": settings };
    const found = await detectAll(machine(files, { "http://127.0.0.1:19001/healthz": live }));
    const best = likeliest(found);
    assertEquals([best?.platform, best?.confidence, best?.reasons.length], ["openclaw", "high", 2]);
    assertEquals([best?.baseUrl, best?.hookPath], ["http://127.0.0.1:19001", "/h/agent"]);
  });
  await t.step("openclaw in the folder that its variables name", async () => {
    const found = await detectAll(machine({ "/x/oc.json": "{}" }, {}, {}, { OPENCLAW_CONFIG_PATH: "/x/oc.json" }));
    assertEquals([likeliest(found)?.platform, likeliest(found)?.configPath], ["openclaw", "/x/oc.json"]);
  });
  const ok = { status: 200, body: "{}" };
  const webhook = { status: 200, body: '{"status":"ok","platform":"webhook"}' };
  const both = { "/home/me/.openclaw/openclaw.json": "{}", "/home/me/.nanobot/config.json": "{}" };
  const rows: [what: string, machine: Machine, platform: string | undefined][] = [
    ["hermes by its health", machine({}, { "http://127.0.0.1:8644/health": webhook }), "hermes"],
    [
      "nanobot by its API",
      machine({}, { "http://127.0.0.1:8900/health": ok, "http://127.0.0.1:8900/v1/models": ok }),
      "nanobot",
    ],
    ["no result when two are equally likely", machine(both), undefined],
  ];
  for (const [what, at, platform] of rows) {
    await t.step(what, async () => assertEquals(likeliest(await detectAll(at))?.platform, platform));
  }
});

Deno.test("set-up of openclaw enables its hooks, keeps all other settings, and does nothing the second time", async () => {
  const path = "/home/me/.openclaw/openclaw.json";
  const files: Record<string, string> = { [path]: '{"gateway":{"port":18789},"agents":[1,2],"hooks":{"x":1}}' };
  const wish = { target: target("openclaw", null), stateDir: null, makeToken: () => "made" };
  const plan = await PLATFORMS.openclaw.plan(machine(files), wish);
  assertEquals([plan.hookToken, plan.change?.path], ["made", path]);
  const written = plan.change?.text ?? "";
  assertEquals(JSON.parse(written), {
    gateway: { port: 18789 },
    agents: [1, 2],
    hooks: { x: 1, enabled: true, token: "made" },
  });
  files[path] = written;
  assertEquals((await PLATFORMS.openclaw.plan(machine(files), wish)).change, null);
  files[path] = "{ // comments\n}";
  const refused = await assertRejects(
    () => PLATFORMS.openclaw.plan(machine(files), wish),
    CliError,
    "not a plain JSON",
  );
  assert(refused.fix?.includes("openclaw config set hooks.path /hooks"), refused.fix);
});

Deno.test("set-up of hermes writes its .env, keeps every other line, and names the route to add", async () => {
  const files: Record<string, string> = { "/home/me/.hermes/.env": "# mine\nA=1\nWEBHOOK_PORT=9\n" };
  const wish = { target: target("hermes", null), stateDir: null, makeToken: () => "made" };
  const plan = await PLATFORMS.hermes.plan(machine(files), wish);
  assertEquals(plan.change?.text, "# mine\nA=1\nWEBHOOK_PORT=8644\nWEBHOOK_ENABLED=true\nWEBHOOK_SECRET=made\n");
  assertEquals(plan.steps.length, 2);
  files["/home/me/.hermes/.env"] = plan.change?.text ?? "";
  files["/home/me/.hermes/webhook_subscriptions.json"] = '{"svc":{}}';
  const again = await PLATFORMS.hermes.plan(machine(files), wish);
  assertEquals([again.change, again.steps, again.hookToken], [null, [], "made"]);
  // Hermes gives a route a secret of its own when the command names none. Messages would then be refused with 401.
  files["/home/me/.hermes/webhook_subscriptions.json"] = '{"svc":{"secret":"its own"}}';
  const [step] = (await PLATFORMS.hermes.plan(machine(files), wish)).steps;
  const command =
    /hermes config set platforms\.webhook\.enabled true && hermes webhook subscribe svc --secret "\$\((.+?)\)"/;
  const [, reads = ""] = command.exec(step ?? "") ?? [];
  assertEquals(reads, "sed -n 's/^WEBHOOK_SECRET=//p' /home/me/.hermes/.env");
});

Deno.test("settings that would block messages are found in the runtime's files, also in another folder", async () => {
  const look = (files: Record<string, string>, stateDir: string | null = "/x") =>
    PLATFORMS.hermes.inspectHook?.(machine(files), target("hermes"), stateDir);
  const env = "WEBHOOK_ENABLED=true\nWEBHOOK_SECRET=s3cret\n";
  const routes = { "/x/webhook_subscriptions.json": '{"svc":{}}' };
  assertEquals(await look({}), null);
  assertEquals(await look({ "/x/.env": "A=1" }), "webhooks are off in /x/.env");
  assertEquals(await look({ "/x/.env": env.replace("s3", "S3") }), "the secret is not that of /x/.env");
  assert((await look({ "/x/.env": env }))?.startsWith("there is no route svc: hermes config set"));
  assertEquals(await look({ "/x/.env": env, ...routes }), null);
  const withSecret = (secret: string) => ({ "/x/webhook_subscriptions.json": JSON.stringify({ svc: { secret } }) });
  assertEquals(await look({ "/x/.env": env, ...withSecret("s3cret") }), null);
  const other = await look({ "/x/.env": env, ...withSecret("its own") });
  assert(other?.startsWith("the route svc has another secret: hermes config set"), other ?? "");
  assertEquals(await look({ "/x/.env": env, "/x/config.yaml": "routes:\n  svc:\n" }), null);
  assertEquals(await look({ "/home/me/.hermes/.env": "A=1" }, null), "webhooks are off in /home/me/.hermes/.env");

  const openclaw = (stateDir: string | null) =>
    PLATFORMS.openclaw.inspectHook?.(
      machine({ "/x/openclaw.json": '{"hooks":{"token":"other"}}' }, {
        "http://127.0.0.1:18789/hooks/agent": { status: 405, body: "" },
      }),
      target("openclaw"),
      stateDir,
    );
  assertEquals([await openclaw(null), await openclaw("/x")], [null, "the token is not that of /x/openclaw.json"]);
  for (const [id, file] of [["openclaw", "openclaw.json"], ["hermes", ".env"], ["nanobot", "config.json"]] as const) {
    assertEquals((await PLATFORMS[id].detect(machine(), "/x")).configPath, `/x/${file}`);
  }
});

Deno.test("settings are changed without loss of other content", () => {
  assertEquals(withMember({ a: 1, b: { c: 2 } }, ["b", "d"], 3), { a: 1, b: { c: 2, d: 3 } });
  assertThrows(() => parseSettings("[]", "/x"), CliError);
  assertEquals(withEnvValues(null, { A: "1" }), "A=1\n");
  assertEquals(withEnvValues("export A=0\nB=2", { A: "1" }), "A=1\nB=2\n");
  assertEquals([...readEnvFile("A= x # c\r\n export B = 'y # z' # c\nC= #c\nA=\"w\"\nno name").entries()], [
    ["A", "w"],
    ["B", "y # z"],
    ["C", "#c"],
  ]);
});

Deno.test("any .env file keeps its other lines and says what was set; any JSON settings are kept or refused", () => {
  const line = anyText.map((text) => text.replaceAll("\n", " ")), name = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,5}$/);
  const value = fc.stringMatching(/^[A-Za-z0-9_-]{1,10}$/);
  fc.assert(fc.property(fc.array(fc.oneof(line, name.map((n) => `${n}=1`))), name, value, (lines, name, value) => {
    const before = lines.join("\n"), after = withEnvValues(before, { [name]: value });
    assertEquals(readEnvFile(after).get(name), value);
    const isOther = (text: string) => !new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`).test(text) && text !== "";
    assertEquals(after.split("\n").filter(isOther), lines.filter(isOther));
    assertEquals(withEnvValues(after, { [name]: value }), after);
  }));
  fc.assert(fc.property(fc.oneof(jsonText, anyText), (text) => {
    try {
      assertEquals(parseSettings(text, "/x"), text.trim() === "" ? {} : JSON.parse(text));
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      assertEquals(error.code, "CLI_FILE_INVALID");
    }
  }));
});

Deno.test("a settings file of many levels is refused, and keeps the stack", () => {
  for (const levels of [10_000, 1_000_000]) {
    const text = `{"a":${"[".repeat(levels)}${"]".repeat(levels)}}`;
    assertThrows(() => parseSettings(text, "/x"), CliError, "/x is nested too deeply");
  }
});

Deno.test("a runtime address or path that leads elsewhere is refused at the start", async (t) => {
  const bad = [
    "http://127.0.0.1:1@evil",
    "//evil",
    "http://127.0.0.1/?",
    "http://127.0.0.1?",
    "http://127.0.0.1/x",
    "ftp://127.0.0.1",
    "http://127.0.0.1#x",
    "http://user:p@127.0.0.1",
    "javascript:alert(1)",
    "",
    "127.0.0.1",
    "http://127.0.0.1\\@evil",
  ];
  for (const url of bad) {
    await t.step(url, () => void assertThrows(() => parseRuntimeUrl(url, "x", { allowInsecure: true }), CliError));
  }
  for (const url of ["http://192.0.2.1", "https://runtime.example", "http://localhost.evil.example"]) {
    await t.step(url, () => {
      assertThrows(() => parseRuntimeUrl(url, "x"), CliError);
      assertEquals(parseRuntimeUrl(url, "x", { allowInsecure: true }), url);
    });
  }
  for (const path of ["http://evil/", "//evil", "/a/../b", "/a?token=x", "/a#b", "x", "", "/a b", "/\\evil", "/a\n"]) {
    await t.step(`path ${path}`, () => void assertThrows(() => parseHookPath(path, "x"), CliError));
  }
  assertEquals(["/", "/hooks/agent", "/webhooks/svc"].map((path) => parseHookPath(path, "x")).length, 3);
  for (const token of ["a b", "x\r\ny", "", "é"]) {
    const error = assertThrows(() => parseHookToken(token, "x"), CliError);
    assert(token === "" || !error.message.includes(token));
  }
});

Deno.test("the source of a runtime's address is named", () => {
  const given = { "runtime-base-url": "http://127.0.0.1:1" };
  const file = emptyRuntimeFile("hermes");
  const variable = env({ SVC_RUNTIME_BASE_URL: "http://127.0.0.1:2" });
  const sources = [
    runtimeTarget(variable, file, "", given),
    runtimeTarget(variable, file),
    runtimeTarget(env(), file),
    runtimeTarget(env(), { ...file, webhookPort: 9_000 }, "", {}, "install"),
    runtimeTarget(env(), null, "openclaw"),
  ].map((target) => target?.source);
  assertEquals(sources, ["option", "environment", "agent", "install", "default"]);
});

Deno.test("an agent reads its messages unless an address, a file or its framework names a runtime", () => {
  const [inbox, hermes] = [emptyRuntimeFile("inbox"), emptyRuntimeFile("hermes")];
  const chosen = (...args: Parameters<typeof runtimeTarget>) => runtimeTarget(...args)?.platform ?? "inbox";
  const address = { "runtime-base-url": "http://127.0.0.1:5" };
  assertEquals(chosen(env(), inbox, "openclaw"), "inbox");
  assertEquals(chosen(env({ SVC_RUNTIME_BASE_URL: "http://127.0.0.1:5" }), inbox), "generic");
  assertEquals(chosen(env({ SVC_HOOK_PATH: "/in" }), null), "openclaw");
  assertEquals(chosen(env({ SVC_HOOK_TOKEN: "t" }), null, "", { replies: "off" }), "inbox");
  assertEquals(chosen(env(), hermes, "", { inbox: true }), "inbox");
  assertEquals(chosen(env(), null, "inbox"), "inbox");
  // An address in the options is for this start.
  assertEquals(chosen(env(), inbox, "", address), "generic");
  assertEquals(chosen(env(), inbox, "", { "openclaw-base-url": "http://127.0.0.1:5" }), "openclaw");
  const error = assertThrows(() => chosen(env(), null, "", { ...address, inbox: true }), CliError);
  assertEquals(error.message, "--inbox and --runtime-base-url exclude each other: with --inbox there is no runtime");
  // A runtime that nothing names gets nothing, although it may listen at the default address.
  assertEquals([chosen(env(), null, "generic"), chosen(env(), null, "hermes")], ["inbox", "hermes"]);
  assertEquals([chosen(env(), hermes, "generic"), chosen(env(), inbox, "hermes")], ["hermes", "inbox"]);
});

Deno.test("answers go back as option, runtime.json or the platform say, in this order", () => {
  const sends = (platform: PushPlatformId, saved: "auto" | "on" | "off", replies?: string) =>
    runtimeTarget(env(), { ...emptyRuntimeFile(platform), replies: saved }, "", { replies })?.replies;
  assertEquals(PUSH_PLATFORM_IDS.map((platform) => sends(platform, "auto")), [false, false, true, false, true]);
  assertEquals([sends("nanobot", "off"), sends("generic", "on")], [false, true]);
  assertEquals([sends("nanobot", "off", "on"), sends("nanobot", "on", "off")], [true, false]);
  assertEquals([sends("generic", "on", "auto"), sends("openclaw", "auto", "off")], [false, false]);
  for (const platform of ["openclaw", "hermes"] as const) {
    assertThrows(() => sends(platform, "auto", "on"), CliError, "does not reply in its answer");
  }
  assertThrows(() => sends("nanobot", "auto", "yes"), CliError, "--replies is one of auto, on, off");
});

Deno.test("saved runtime settings keep the replies unless the options change them", () => {
  const file = { ...emptyRuntimeFile("nanobot"), replies: "off" as const };
  const target = runtimeTarget(env(), file);
  const kept = withTarget(file, target, {});
  assertEquals([kept.replies, kept.strict], ["off", false]);
  assertEquals(withTarget(file, target, { replies: "on" }).replies, "on");
  assertEquals(withTarget(file, null, {}), emptyRuntimeFile("inbox"));
  const strict = withTarget(file, target, { strict: true });
  assertEquals([strict.strict, withTarget(strict, null, {}).strict], [true, true]);
});

Deno.test("the runtime address comes from option, environment, runtime.json or the platform's default", () => {
  const file = { ...emptyRuntimeFile("hermes"), webhookPort: 9_000, webhookToken: "t" };
  const url = (...args: Parameters<typeof runtimeTarget>) => {
    const target = runtimeTarget(...args);
    assert(target);
    const { baseUrl, hookPath, hookToken, platform } = target;
    return [platform, baseUrl + hookPath, hookToken];
  };
  // The default address is that of OpenClaw, so the request has OpenClaw's form.
  const path = { "hook-path": "/in" };
  assertEquals(url(env(), null, "generic", path), ["openclaw", "http://127.0.0.1:18789/in", null]);
  assertEquals(url(env(), null, "something", { "openclaw-base-url": "http://127.0.0.1:5" })[0], "openclaw");
  assertEquals(url(env(), null, "something", { "runtime-base-url": "http://127.0.0.1:5" })[0], "generic");
  assertEquals(url(env({ SVC_RUNTIME_BASE_URL: "http://127.0.0.1:5" }), null, "generic")[0], "generic");
  assertEquals(url(env(), null, "openclaw")[0], "openclaw");
  assertEquals(url(env(), file), ["hermes", "http://127.0.0.1:9000/webhooks/svc", "t"]);
  const both = env({ SVC_RUNTIME_BASE_URL: "http://127.0.0.1:2", OPENCLAW_BASE_URL: "http://127.0.0.1:3" });
  assertEquals(url(both, file)[1], "http://127.0.0.1:2/webhooks/svc");
  const option = { "runtime-base-url": "http://127.0.0.1:1" };
  assertEquals(url(both, file, "", option)[1], "http://127.0.0.1:1/webhooks/svc");
  const openclaw = env({ OPENCLAW_BASE_URL: "http://127.0.0.1:3" });
  assertEquals(url(openclaw, file)[1], "http://127.0.0.1:9000/webhooks/svc");
  assertEquals(url(openclaw, null)[1], "http://127.0.0.1:3/hooks/agent");
  // By the source doctor knows that the settings need not name this address.
  assertEquals(runtimeTarget(env(), file, "", path)?.source, "option");
  assertEquals(runtimeTarget(env({ SVC_HOOK_PATH: "/in" }), file)?.source, "environment");
  assertEquals(runtimeTarget(env(), { ...file, hookPath: "/in" })?.source, "agent");
  assertEquals(PLATFORM_IDS, ["openclaw", "hermes", "nanobot", "generic", "a2a", "inbox"]);
});
