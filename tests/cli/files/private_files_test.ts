/** Files that hold secrets: no link is followed, no file of another user is accepted, and modes are corrected. */
import { dirname } from "node:path";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { CliError, describe, NOT_YOURS } from "../../../cli/errors.ts";
import {
  checkDirectory,
  ensureDirectory,
  readPrivate,
  removeLeftovers,
  saveFailed,
  writePrivate,
} from "../../../cli/files/private_files.ts";
import { systemRandom } from "../../../shared/random.ts";
import { tempFolder } from "../../support/temp_folder.ts";
import { Machine } from "../cli_world.ts";

/** Names, sizes, modes and times of everything below a folder. */
function snapshot(path: string): unknown[] {
  const { isDirectory, size, mode, mtime } = Deno.lstatSync(path);
  const below = isDirectory ? [...Deno.readDirSync(path)].map(({ name }) => snapshot(`${path}/${name}`)) : [];
  return [path, isDirectory ? 0 : size, mode, mtime, below];
}

const modeOf = async (path: string) => ((await Deno.lstat(path)).mode ?? 0) & 0o777;
const me = [Deno.uid() ?? 0];

Deno.test("a private write makes a file of mode 0600 or replaces one, and leaves no other file", async () => {
  await using dir = await tempFolder();
  await writePrivate(systemRandom, `${dir.path}/new`, "one");
  await Deno.writeTextFile(`${dir.path}/old`, "old", { mode: 0o644 });
  await Deno.chmod(`${dir.path}/old`, 0o644);
  await writePrivate(systemRandom, `${dir.path}/old`, "two");
  assertEquals([await modeOf(`${dir.path}/new`), await modeOf(`${dir.path}/old`)], [0o600, 0o600]);
  assertEquals(readPrivate(`${dir.path}/old`, 10), "two");
  assertEquals([...Deno.readDirSync(dir.path)].map(({ name }) => name).sort(), ["new", "old"]);
});

Deno.test("a private write that fails keeps the old content and removes its temporary file", async () => {
  await using dir = await tempFolder();
  await Deno.mkdir(`${dir.path}/taken/x`, { recursive: true });
  const error = await assertRejects(() => writePrivate(systemRandom, `${dir.path}/taken`, "text"), CliError);
  assertEquals(error.code, "CLI_SAVE_FAILED");
  assertEquals([...Deno.readDirSync(dir.path)].map(({ name }) => name), ["taken"]);
});

Deno.test("no file is read or written through a link", async () => {
  await using dir = await tempFolder();
  await Deno.writeTextFile(`${dir.path}/target`, "target");
  for (const target of ["target", "nowhere"]) {
    const link = `${dir.path}/link-to-${target}`;
    await Deno.symlink(`${dir.path}/${target}`, link);
    assertEquals(assertThrows(() => readPrivate(link, 100), CliError).code, "CLI_FILE_UNSAFE");
    const error = await assertRejects(() => writePrivate(systemRandom, link, "evil"), CliError);
    assertEquals(error.code, "CLI_FILE_UNSAFE");
  }
  assertEquals(await Deno.readTextFile(`${dir.path}/target`), "target");
});

/** Reads a file that changes after it was checked. */
function readChanging(path: string, change: () => void): string | null {
  const { lstatSync } = Deno;
  Deno.lstatSync = (path) => {
    Deno.lstatSync = lstatSync;
    const plain = lstatSync(path);
    change();
    return plain;
  };
  try {
    return readPrivate(path, 100);
  } finally {
    Deno.lstatSync = lstatSync;
  }
}

Deno.test("a file that becomes a link after it was checked is not read", async () => {
  await using dir = await tempFolder();
  const path = `${dir.path}/file`;
  await Deno.writeTextFile(`${dir.path}/target`, "target");
  await Deno.writeTextFile(path, "file");
  const becomesLink = () => {
    Deno.removeSync(path);
    Deno.symlinkSync(`${dir.path}/target`, path);
  };
  const { code, message } = assertThrows(() => readChanging(path, becomesLink), CliError);
  assertEquals([code, message], ["CLI_FILE_UNSAFE", `${path} is a link`]);
});

Deno.test("a file that is replaced after it was checked is read as it is then", async () => {
  await using dir = await tempFolder();
  const path = `${dir.path}/file`;
  await Deno.writeTextFile(path, "old");
  await Deno.writeTextFile(`${dir.path}/new`, "new");
  assertEquals(readChanging(path, () => Deno.renameSync(`${dir.path}/new`, path)), "new");
});

Deno.test("a private read returns null for no file and refuses links, large files and non-text", async () => {
  await using dir = await tempFolder();
  assertEquals(readPrivate(`${dir.path}/none`, 10), null);
  assertEquals(readPrivate(`${dir.path}/none/below`, 10), null);
  await Deno.writeTextFile(`${dir.path}/empty`, "");
  assertEquals([readPrivate(`${dir.path}/empty`, 10), readPrivate(`${dir.path}/empty/below`, 10)], ["", null]);
  await Deno.mkdir(`${dir.path}/folder`);
  assertEquals(assertThrows(() => readPrivate(`${dir.path}/folder`, 10), CliError).code, "CLI_FILE_UNSAFE");
  await new Deno.Command("mkfifo", { args: [`${dir.path}/pipe`] }).output();
  assertEquals(assertThrows(() => readPrivate(`${dir.path}/pipe`, 10), CliError).code, "CLI_FILE_UNSAFE");
  await Deno.writeFile(`${dir.path}/file`, new Uint8Array([0xff, 0xfe]));
  assertEquals(assertThrows(() => readPrivate(`${dir.path}/file`, 10), CliError).code, "CLI_FILE_INVALID");
  assertEquals(assertThrows(() => readPrivate(`${dir.path}/file`, 1), CliError).code, "CLI_FILE_INVALID");
});

Deno.test("a file or folder that the system does not open is named with what to do", async () => {
  await using machine = await Machine.open();
  const denied = (path: string) => new Deno.errors.PermissionDenied(`Permission denied (os error 13): open '${path}'`);
  const { openSync, readDirSync } = Deno;
  try {
    machine.write("config.json", "{}");
    Deno.openSync = (path) => {
      throw denied(String(path));
    };
    await machine.refuses(
      ["config", "show"],
      1,
      "CLI_CONFIG_INVALID",
      "cannot be read: Permission denied",
      "leaves files of root",
    );
    machine.write("profile.json", "{}");
    await machine.refuses(["config", "show"], 1, "CLI_FILE_INVALID", "svc with sudo leaves files of root");
    Deno.openSync = openSync;
    Deno.readDirSync = (path) => {
      throw denied(String(path));
    };
    await Deno.remove(machine.path("profile.json"));
    await machine.refuses(
      ["profile", "list"],
      1,
      "CLI_FILE_UNSAFE",
      "/profiles: permission denied",
      "leaves files of root",
    );
  } finally {
    Object.assign(Deno, { openSync, readDirSync });
  }
});

Deno.test("a directory with write access for others is corrected; a link or a foreign one is refused", async () => {
  await using dir = await tempFolder();
  const open = `${dir.path}/open`;
  await Deno.mkdir(open);
  for (const mode of [0o777, 0o720, 0o702]) {
    await Deno.chmod(open, mode);
    await ensureDirectory(open, me);
    assertEquals(await modeOf(open), 0o700);
  }
  await Deno.symlink(open, `${dir.path}/link`);
  await Deno.writeTextFile(`${dir.path}/file`, "");
  for (const name of ["link", "file"]) {
    const error = await assertRejects(() => checkDirectory(`${dir.path}/${name}`, me), CliError);
    assertEquals(error.code, "CLI_FILE_UNSAFE");
  }
  const foreign = await assertRejects(() => checkDirectory(open, [me[0]! + 1]), CliError);
  assertEquals(foreign.code, "CLI_FILE_UNSAFE");
});

Deno.test("a file of another user is named with who can change that, and a full disk with what to free", () => {
  const fixOf = (cause: Error) => describe(saveFailed("/x/config.json", "written", cause)).fix;
  assertEquals(fixOf(new Deno.errors.PermissionDenied("Permission denied (os error 13)")), NOT_YOURS);
  assert(fixOf(new Error("No space left on device (os error 28)")).startsWith("Free disk space"));
});

Deno.test("old leftovers of a killed process are removed, and no other files", async () => {
  await using dir = await tempFolder();
  const names = [".other", ".svc-AAAAAAAAAAAAAAAA.tmp", ".svc-BBBBBBBBBBBBBBBB.tmp", ".svc-short.tmp", "a.tmp"];
  const now = Date.now();
  for (const name of names) {
    await Deno.writeTextFile(`${dir.path}/${name}`, "");
    if (!name.includes("BBBB")) await Deno.utime(`${dir.path}/${name}`, 0, (now - 601_000) / 1000);
  }
  await removeLeftovers(dir.path, now);
  const left = [...Deno.readDirSync(dir.path)].map(({ name }) => name).sort();
  assertEquals(left, names.filter((name) => !name.includes("AAAA")));
});

Deno.test("tokens that are too large to read again are not saved, and the next refresh recovers", async () => {
  await using machine = await Machine.ofPerson();
  await machine.json("agent", "create", "alpha");
  machine.world.clock.step(2_000);
  const before = machine.read("agents/alpha/registry-auth.json");
  const restore = machine.changeAnswers(/\/refresh$/, ({ agentAuth }) => ({
    agentAuth: { ...agentAuth, tokenType: "Bearer", accessToken: "x".repeat(70_000) },
  }));
  await machine.refuses(["agent", "auth", "refresh", "alpha"], 1, "CLI_SAVE_FAILED");
  assertEquals(machine.read("agents/alpha/registry-auth.json") === before, true);
  restore();
  machine.world.clock.step(2_000);
  assertEquals((await machine.json("agent", "auth", "refresh", "alpha")).how, "recovered");
});

Deno.test("an agents folder with write access for others is corrected before it is used", async () => {
  await using machine = await Machine.ofPerson();
  await Deno.mkdir(machine.path("agents"));
  await Deno.chmod(machine.path("agents"), 0o777);
  await Deno.chmod(machine.dir, 0o777);
  await machine.json("agent", "create", "alpha");
  assertEquals([await modeOf(machine.dir), await modeOf(machine.path("agents"))], [0o700, 0o700]);
  await Deno.chmod(machine.path("agents/alpha"), 0o777);
  await machine.json("agent", "inspect", "alpha");
  assertEquals(await modeOf(machine.path("agents/alpha")), 0o700);
});

Deno.test("links in place of folders, locks and files of agents are refused, their targets unchanged", async (t) => {
  const places: [string, string[]][] = [
    ["agents", ["agent", "create", "beta"]],
    ["agents/alpha", ["agent", "auth", "refresh", "alpha"]],
    ["agents/alpha", ["agent", "inspect", "alpha"]],
    ["agents/alpha/registry-auth.json", ["agent", "auth", "refresh", "alpha"]],
    ["agents/alpha/secret.key", ["agent", "auth", "refresh", "alpha"]],
    ["agents/alpha/refresh.pending", ["agent", "auth", "refresh", "alpha"]],
    ["agents/alpha/agent.lock", ["agent", "auth", "refresh", "alpha"]],
    ["agents/.beta.pending", ["agent", "create", "beta"]],
    ["agents/.beta.pending/agent.lock", ["agent", "create", "beta"]],
    [".config.lock", ["config", "set", "humanName", "Eve"]],
  ];
  for (const [place, argv] of places) {
    for (const isDangling of [false, true]) {
      await t.step(`${place}${isDangling ? " to nowhere" : ""}, ${argv.join(" ")}`, async () => {
        await using machine = await Machine.ofPerson();
        await using outside = await tempFolder();
        await machine.json("agent", "create", "alpha");
        const target = `${outside.path}/target`;
        if (!isDangling) {
          await Deno.rename(machine.path(place), target).catch(() => Deno.writeTextFile(target, "target"));
        }
        await Deno.remove(machine.path(place), { recursive: true }).catch(() => {});
        await Deno.mkdir(dirname(machine.path(place)), { recursive: true });
        await Deno.symlink(target, machine.path(place));
        const before = snapshot(outside.path);
        const sent = machine.requests.length;
        const { exit, code } = await machine.failure(...argv);
        assertEquals([exit, code, machine.requests.length], [1, "CLI_FILE_UNSAFE", sent]);
        assertEquals(snapshot(outside.path), before);
      });
    }
  }
});

Deno.test("a second name of a file of numbers in place of a lock is refused, and the file stays", async () => {
  await using machine = await Machine.ofPerson();
  await using outside = await tempFolder();
  const other = `${outside.path}/counter`;
  await Deno.writeTextFile(other, "12345\n");
  await machine.json("config", "show");
  await Deno.remove(machine.path(".config.lock")).catch(() => {});
  await Deno.link(other, machine.path(".config.lock"));
  const { exit, code } = await machine.failure("config", "set", "humanName", "Eve");
  assertEquals([exit, code, await Deno.readTextFile(other)], [1, "CLI_FILE_UNSAFE", "12345\n"]);
});

Deno.test("the configuration directory itself may be a link that the person made", async () => {
  await using machine = await Machine.ofPerson();
  await Deno.mkdir(machine.path("real"), { mode: 0o700 });
  await Deno.symlink(machine.path("real"), machine.path("link"));
  await machine.json("agent", "create", "alpha", "--config-dir", machine.path("link"));
  assert("real/agents/alpha/" in machine.tree());
});
