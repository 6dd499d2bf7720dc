/**
 * The small files of a configuration folder: reading one, with any content, gives a value that the rest of svc can
 * use, or an error that names the file. Another exception would end every command with a stack trace.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { join } from "node:path";
import { AgentFolder } from "../../../cli/agents/agent_store.ts";
import { readConfig } from "../../../cli/account/config_store.ts";
import { lockHolder } from "../../../cli/connector/connector_lock.ts";
import { readA2aPeers } from "../../../cli/connector/local_api/a2a_peers.ts";
import { readConnectorFile } from "../../../cli/connector/local_api/discovery_file.ts";
import { readPort } from "../../../cli/connector/local_api/port.ts";
import { presentPeers, readPeers } from "../../../cli/connector/peers/peers.ts";
import { readRuntimeFileIn, runtimeTarget, withTarget } from "../../../cli/connector/runtime/runtime_file.ts";
import type { Context } from "../../../cli/context.ts";
import { CliError } from "../../../cli/errors.ts";
import { withLock } from "../../../cli/files/lock.ts";
import { readProfile } from "../../../cli/files/profile.ts";
import { Records } from "../../../cli/hosts/records.ts";
import { parseSettings, readEnvFile, withEnvValues, withMember } from "../../../cli/platforms/settings.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { parseServiceUrl } from "../../../shared/client/service_url.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { tempFolder } from "../../support/temp_folder.ts";
import { anyText, jsonText } from "../../shared/protocol/arbitraries.ts";

const DID = "did:svc:registry.example.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";
const PEER = { did: DID, agentName: "beta", humanName: "Bob" };
const SAMPLE_KEY = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const NOW = "2026-02-21T00:01:00.000Z";

interface SmallFile {
  name: string;
  /** A value that is accepted. */
  valid: unknown;
  /** Reads the file, and uses the value as the rest of svc does. Throws for a value that it cannot use. */
  read(ctx: Context, folder: AgentFolder): unknown;
  /** Code of the error for an invalid file; absent: an invalid file counts as missing. */
  code?: string;
}

const FILES: readonly SmallFile[] = [
  {
    name: "config.json",
    valid: { registryUrl: "https://r.example", proxyUrl: "https://p.example", apiKey: "svc_pat_x", humanName: "Ada" },
    read(ctx) {
      const { registryUrl = "https://r.example" } = readConfig(ctx) ?? {};
      assert(parseServiceUrl(registryUrl) !== null);
    },
    code: "CLI_CONFIG_INVALID",
  },
  {
    name: "profile.json",
    valid: { version: 1, ca: "ca.pem", insecureOrigins: ["http://r.example"], notify: "bell", historyDays: 30 },
    read(ctx) {
      const { insecureOrigins, historyDays } = readProfile(ctx);
      assert(insecureOrigins.every((origin) => new URL(origin).origin === origin) && historyDays <= 365);
    },
    code: "CLI_FILE_INVALID",
  },
  {
    name: "peers.json",
    valid: { beta: { ...PEER, key: SAMPLE_KEY, how: "ticket", since: NOW, former: ["b"] } },
    read: (_, folder) => Object.entries(presentPeers(readPeers(folder))).map(([alias, { did }]) => alias + did),
    code: "CLI_FILE_INVALID",
  },
  {
    name: "runtime.json",
    valid: {
      platform: "openclaw",
      webhookHost: "127.0.0.1",
      webhookPort: 18789,
      hookPath: "/hooks/agent",
      strict: true,
    },
    read(ctx, folder) {
      const file = readRuntimeFileIn(folder);
      try {
        withTarget(file, runtimeTarget(ctx, file), {});
      } catch (error) {
        // A file may name an address that is not allowed; the error says what is wrong with it.
        assert(error instanceof CliError && ["CLI_USAGE", "CLI_INSECURE_URL"].includes(error.code), String(error));
      }
    },
    code: "CLI_FILE_INVALID",
  },
  {
    name: "a2a.json",
    valid: { peers: [{ alias: "beta", did: DID, tokenHash: "h", addedAt: NOW }] },
    read: (_, folder) => readA2aPeers(folder).map(({ addedAt }) => new Date(addedAt).toISOString()),
    code: "CLI_FILE_INVALID",
  },
  {
    name: "hosts.json",
    valid: [{ path: "/p", place: ["a"], written: [{}], made: 1, isNew: false, copies: ["a-1-00.txt"] }],
    read: (ctx, folder) =>
      new Records(ctx, folder).all().flatMap(({ copies }) => copies.map((copy) => join("x", copy))),
    code: "CLI_FILE_INVALID",
  },
  { name: "connector.json", valid: { url: "http://127.0.0.1:1" }, read: (_, folder) => readConnectorFile(folder) },
  {
    name: "port",
    valid: 12_000,
    read(_, folder) {
      const port = readPort(folder);
      assert(port === null || port >= 1 && port <= 65_535);
    },
  },
  { name: "connector.lock", valid: 17, read: (_, folder) => lockHolder(folder), code: "CLI_FILE_INVALID" },
];

/** A valid text in which a part is replaced, a value in it is another one, or any text. */
function damagedTexts(valid: unknown): fc.Arbitrary<string> {
  const text = JSON.stringify(valid, null, 2);
  const edit = fc.tuple(
    fc.nat(text.length),
    fc.nat(6),
    fc.oneof(anyText, fc.constantFrom("", '"', "}", "null", "1e9")),
  );
  const edited = edit.map(([at, length, by]) => text.slice(0, at) + by + text.slice(at + length));
  const members = [...text.matchAll(/(?<=: ?|\[\s*)("[^"]*"|\d+|true|false)/g)];
  const swapped = fc.tuple(fc.nat(Math.max(0, members.length - 1)), jsonText).map(([i, other]) => {
    const { index = 0, 0: found = text } = members[i] ?? {};
    return text.slice(0, index) + other + text.slice(index + found.length);
  });
  return fc.oneof(edited, swapped, jsonText, anyText);
}

for (const { name, valid, read, code } of FILES) {
  Deno.test(`${name} with any content is read, or refused with its path`, async () => {
    await using folder = await tempFolder();
    const ctx = { configDir: folder.path, env: () => undefined, allowInsecure: false } as unknown as Context;
    const agent = new AgentFolder(ctx, folder.path, "alpha"), path = join(folder.path, name);
    const write = (text: string) => Deno.writeTextFileSync(path, text, { mode: 0o600 });
    write(JSON.stringify(valid));
    read(ctx, agent);
    fc.assert(
      fc.property(damagedTexts(valid), (text) => {
        write(text);
        try {
          read(ctx, agent);
        } catch (error) {
          if (!(error instanceof CliError)) throw error;
          assertEquals(error.code, code);
          assert(error.message.includes(path), error.message);
        }
      }),
      { numRuns: 150 },
    );
  });
}

Deno.test("a small file as large as it may be is read or refused in bounded time, and a larger one refused", async () => {
  await using folder = await tempFolder();
  const ctx = { configDir: folder.path, env: () => undefined, allowInsecure: false } as unknown as Context;
  const agent = new AgentFolder(ctx, folder.path, "alpha");
  for (const { name, read } of FILES) {
    for (const unit of ["[", '{"a":', '"', "\\", " ", "9", "\0"]) {
      for (const size of [60_000, 1_000_000]) {
        Deno.writeTextFileSync(join(folder.path, name), unit.repeat(size / unit.length), { mode: 0o600 });
        try {
          read(ctx, agent);
        } catch (error) {
          if (!(error instanceof CliError)) throw error;
        }
      }
    }
    Deno.removeSync(join(folder.path, name));
  }
});

Deno.test("a file that is no lock is never changed by the wait for the lock", async () => {
  await using folder = await tempFolder();
  const path = join(folder.path, "some.lock"), clock = new ManualClock();
  const texts = fc.oneof(anyText, fc.stringMatching(/^\d{0,22}\n?$/), fc.stringMatching(/^[\d\n ]{1,33}$/));
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      const before = utf8Bytes(text);
      Deno.writeFileSync(path, before);
      const isLock = /^(\d{1,20}\n?)?$/.test(text);
      const held = await withLock({ clock, pid: 7 }, () => path, () => Promise.resolve(true)).catch((error) => error);
      assertEquals(held === true, isLock);
      assert(held === true || held instanceof CliError && held.code === "CLI_FILE_UNSAFE", String(held));
      assertEquals(Deno.readFileSync(path), isLock ? utf8Bytes("7\n") : before);
    }),
    { numRuns: 150 },
  );
});

const envName = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,8}$/);
const envLines = fc.array(
  fc.oneof(
    fc.tuple(envName, fc.stringMatching(/^[!-~]{0,10}$/)).map(([name, value]) => `${name}=${value}`),
    fc.tuple(envName, fc.constantFrom('"a b" # c', "'x'", "a # b", " v", "export A=b")).map((parts) => parts.join("=")),
    fc.constantFrom("", "# A=b", "export A=b", "A", "=b"),
    anyText,
  ),
  { maxLength: 6 },
).map((lines) => lines.join("\n"));
/** A value as svc writes one: one word. */
const envValue = fc.stringMatching(/^[A-Za-z0-9._~:/-]{1,40}$/);

Deno.test("a value that is set in a .env file is read back, and every other name keeps its value", () => {
  fc.assert(fc.property(envLines, envName, envValue, (text, name, value) => {
    const before = readEnvFile(text), changed = withEnvValues(text, { [name]: value });
    assertEquals(readEnvFile(changed), before.set(name, value));
    assertEquals(withEnvValues(changed, { [name]: value }), changed);
  }));
});

Deno.test("a .env file of 256 KiB of one character or word is read in bounded time", () => {
  for (const unit of ["=", '"', "'", " ", "#", "\n", "A", "A=\n", "export ", 'A=" ', " #", "\r"]) {
    for (const start of ["", "A=", 'A="', "export"]) readEnvFile(start + unit.repeat(2 ** 18 / unit.length));
  }
});

Deno.test("settings of another program keep every other member, or are refused with their path", () => {
  fc.assert(fc.property(fc.oneof(jsonText, anyText), envName, fc.string(), (text, name, value) => {
    try {
      const settings = parseSettings(text, "/some/file");
      const { [name]: _, ...others } = settings;
      const { [name]: set, ...kept } = withMember(settings, [name], value);
      assertEquals([set, kept], [value, others]);
    } catch (error) {
      assert(error instanceof CliError && error.code === "CLI_FILE_INVALID" && error.message.includes("/some/file"));
    }
  }));
});
