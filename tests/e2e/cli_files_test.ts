/**
 * Files of the CLI with real processes and sockets: `svc` as one file with the permissions that it ships with, and the
 * compiled binary. Kills: cli_kill_test.ts.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Place } from "../cli/place.ts";
import { attemptHere, svcHere } from "../cli/connector/people.ts";
import { ended, output, programs } from "../cli/program.ts";
import { longTest } from "../support/trials.ts";
import { machineTests } from "./harness.ts";

const place = await Place.open();
Deno.test.afterAll(() => place[Symbol.asyncDispose]());

for (const program of await programs()) {
  const test = machineTests(program, place);
  const inLongRun = machineTests(program, place, longTest);

  test("files are private with any umask, and become private when rewritten", async (place, machine) => {
    const open = ["sh", "-c", 'umask 000; exec "$@"', "sh"];
    await Deno.mkdir(machine.dir);
    await Deno.chmod(machine.dir, 0o777);
    for (const argv of [["config", "init"], ["agent", "create", "alpha"], ["agent", "auth", "refresh", "alpha"]]) {
      assertEquals((await ended(machine.spawn(argv, { before: open }))).code, 0);
    }
    assertEquals((Deno.lstatSync(machine.dir).mode ?? 0) & 0o777, 0o700);
    for (const [path, mode] of Object.entries(machine.modes())) {
      assertEquals(mode, path.endsWith("/") ? "700" : "600", path);
    }
    for (const file of ["config.json", "agents/alpha/registry-auth.json"]) await Deno.chmod(machine.path(file), 0o644);
    for (const argv of [["config", "set", "humanName", "Ada"], ["agent", "auth", "refresh", "alpha"]]) {
      await svcHere(machine.dir, argv, machine.env);
    }
    assertEquals([machine.modes()["config.json"], machine.modes()["agents/alpha/registry-auth.json"]], ["600", "600"]);
    assert(await place.works(machine, "alpha"));
  });

  inLongRun(
    "secrets are created with O_EXCL and 0600 and fsynced before the rename, the folder after it",
    async (_, machine) => {
      const trace = `${machine.folder.path}/trace`;
      const strace = [
        "strace",
        "-f",
        "-y",
        "-o",
        trace,
        "-e",
        "trace=open,openat,creat,fsync,fdatasync,rename,renameat,renameat2,chmod,fchmod,fchmodat",
      ];
      if ((await output("strace", ["-V"]).catch(() => null))?.code !== 0) {
        return console.log("strace is not on this machine: the order of file operations is NOT checked");
      }
      for (const argv of [["agent", "create", "alpha"], ["agent", "auth", "refresh", "alpha"]]) {
        assertEquals((await ended(machine.spawn(argv, { before: strace }))).code, 0);
        const lines = joined(await Deno.readTextFile(trace)).filter((line) => line.includes(machine.dir));
        const renames = lines.filter((line) => /rename.*\.tmp", /.test(line));
        assert(renames.length >= 2, `${renames.length} renames`);
        for (const rename of renames) {
          const temporary = /"([^"]*\.tmp)"/.exec(rename)?.[1] ?? "";
          const at = lines.indexOf(rename);
          const made = lines.findIndex((line) =>
            line.includes(`"${temporary}"`) && line.includes("O_EXCL") && line.includes("0600")
          );
          const synced = lines.findIndex((line) => /f(?:data)?sync\(/.test(line) && line.includes(temporary));
          const folder = temporary.slice(0, temporary.lastIndexOf("/"));
          const after = lines.findIndex((line, i) => i > at && /fsync\(/.test(line) && line.includes(`<${folder}>`));
          assert(
            made !== -1 && synced > made && at > synced && after > at,
            `${made} ${synced} ${at} ${after} ${rename}`,
          );
        }
        assertEquals(lines.filter((line) => /chmod/.test(line)), [], "no moment with another mode");
      }
    },
  );

  test("a refresh on a full disk loses no session", async (place, machine) => {
    await svcHere(machine.dir, ["agent", "create", "alpha"], machine.env);
    const disk = `${machine.folder.path}/disk`;
    await Deno.mkdir(disk);
    if (
      (await output("mount", ["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", disk]).catch(() => null))?.code !== 0
    ) {
      return console.log("A small file system cannot be mounted here: a full disk is NOT checked");
    }
    try {
      await output("cp", ["-a", machine.path("."), `${disk}/svc`]);
      machine.env.SVC_CONFIG_DIR = `${disk}/svc`;
      const before = machine.read("agents/alpha/registry-auth.json");
      await fill(disk);
      const refresh = () => attemptHere(machine.dir, ["agent", "auth", "refresh", "alpha"], machine.env);
      const early = await refresh();
      assertEquals([early.code, early.error?.code], [1, "CLI_SAVE_FAILED"]);
      await Deno.remove(`${disk}/filling`);
      place.tamper = async (_, forward) => {
        const response = await forward();
        await fill(disk);
        return response;
      };
      const late = await refresh();
      assertEquals([late.code, late.error?.code], [1, "CLI_SAVE_FAILED"]);
      assertStringIncludes(late.error?.message ?? "", "agent auth refresh alpha to recover them");
      assertEquals(machine.read("agents/alpha/registry-auth.json"), before, "the old file is intact");
      place.tamper = null;
      await Deno.remove(`${disk}/filling`);
      assertEquals((await refresh()).result.how, "recovered");
      assert(await place.works(machine, "alpha"));
    } finally {
      await output("umount", [disk]);
    }
  });

  test(
    "a folder with write access for others is corrected, and a planted link is not followed",
    async (_, machine) => {
      await Deno.mkdir(machine.path("agents"), { recursive: true });
      await Deno.chmod(machine.path("agents"), 0o777);
      const here = (...argv: string[]) => attemptHere(machine.dir, argv, machine.env);
      assertEquals((await here("agent", "create", "alpha")).code, 0);
      assertEquals(machine.modes()["agents/"], "700");
      const target = `${machine.folder.path}/target`;
      await Deno.writeTextFile(target, "target");
      for (const name of ["registry-auth.json.tmp", ".registry-auth.json.tmp", "refresh.pending.tmp"]) {
        await Deno.symlink(target, machine.path(`agents/alpha/${name}`));
      }
      assertEquals((await here("agent", "auth", "refresh", "alpha")).code, 0);
      assertEquals(await Deno.readTextFile(target), "target");
      await Deno.remove(machine.path("agents/alpha/registry-auth.json"));
      await Deno.symlink(target, machine.path("agents/alpha/registry-auth.json"));
      assertEquals((await here("agent", "auth", "refresh", "alpha")).error?.code, "CLI_FILE_UNSAFE");
      assertEquals(await Deno.readTextFile(target), "target");
    },
  );
}

/** The calls of an strace log, with calls that another thread interrupted joined again. */
function joined(log: string): string[] {
  const open = new Map<string, string>();
  const calls: string[] = [];
  for (const line of log.split("\n")) {
    const [, pid = "", rest = ""] = /^(\d+)\s+(.*)$/.exec(line) ?? [];
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest)?.[1];
    if (rest.endsWith("<unfinished ...>")) open.set(pid, rest.slice(0, -"<unfinished ...>".length));
    else calls.push(resumed === undefined ? rest : (open.get(pid) ?? "") + resumed);
  }
  return calls;
}

/** Fills a small file system. */
async function fill(folder: string): Promise<void> {
  for (const size of [65_536, 4_096, 1]) {
    try {
      while (true) await Deno.writeFile(`${folder}/filling`, new Uint8Array(size), { append: true });
    } catch { /** Full for chunks of this size. */ }
  }
}
