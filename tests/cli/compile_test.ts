/** What the build tools check in their results: header and machine, the stub's version, permissions, the package. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { ENVIRONMENT } from "../../cli/context.ts";
import { machineOf, namesVersion, refuseRepackaging, TARGETS } from "../tools/compile.ts";
import { launcher, packageJson } from "../tools/pack.ts";
import { bundleConfig, permissionFlags } from "../tools/permission_flags.ts";

const ROOT = new URL("../../", import.meta.url);

function head(...parts: [offset: number, bytes: number[]][]): Uint8Array {
  const bytes = new Uint8Array(512);
  for (const [offset, part] of parts) bytes.set(part, offset);
  return bytes;
}

Deno.test("the six systems are recognised by their headers, and no other is", () => {
  const elf = (machine: number, bits = 2) => head([0, [0x7f, 0x45, 0x4c, 0x46, bits]], [18, [machine, 0]]);
  const macho = (cpu: number) => head([0, [0xcf, 0xfa, 0xed, 0xfe, cpu, 0, 0, 1]]);
  const pe = (machine: number[], at = 0x80) =>
    head([0, [0x4d, 0x5a]], [0x3c, [at & 0xff, at >> 8]], [at & 0x1ff, [0x50, 0x45, 0, 0, ...machine]]);
  const cases: [Uint8Array, string | null][] = [
    [elf(0x3e), "elf x64"],
    [elf(0xb7), "elf arm64"],
    [macho(7), "mach-o x64"],
    [macho(12), "mach-o arm64"],
    [pe([0x64, 0x86]), "pe x64"],
    [pe([0x64, 0xaa]), "pe arm64"],
    [elf(3), null],
    [elf(0x3e, 1), null],
    [macho(1), null],
    [pe([0x4c, 0x01]), null],
    [head([0, [0x4d, 0x5a]], [0x3c, [0xff, 0xff, 0xff, 0x7f]]), null],
    [head([0, [...new TextEncoder().encode("#!/bin/sh\n")]]), null],
    [new Uint8Array(10), null],
    [new Uint8Array(), null],
  ];
  for (const [bytes, machine] of cases) assertEquals(machineOf(bytes), machine);
  assertEquals(new Set(TARGETS.map(({ machine }) => machine)).size, 6);
});

Deno.test("the header of this Deno is recognised", async () => {
  using file = await Deno.open(Deno.execPath());
  const bytes = new Uint8Array(4096);
  await file.read(bytes);
  assert(TARGETS.some(({ triple, machine }) => triple === Deno.build.target && machine === machineOf(bytes)));
});

Deno.test("the version is found in a stub, and a longer number is not", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  for (const text of ["2.9.6", "\u0000Deno/2.9.6\u0000", "12.9.6 2.9.6"]) {
    assert(namesVersion(bytes(text), "2.9.6"), text);
  }
  for (const text of ["", "Deno/2.9.60", "12.9.6", "2.9.6.1"]) assert(!namesVersion(bytes(text), "2.9.6"), text);
});

Deno.test("binary and package have named permissions and never ask, and a server starts no program", () => {
  const flags = permissionFlags("svc");
  assert(flags.includes("--no-prompt"));
  assertEquals(flags.filter((flag) => /all$|^-A$|allow-(?:run$|ffi|env$|sys$)/.test(flag)), []);
  const { permissions } = bundleConfig() as { permissions: Record<string, Record<string, unknown>> };
  assertEquals(Object.keys(permissions), ["svc", "serve", "connector"]);
  for (const [name, { run, env, sys, ffi, all }] of Object.entries(permissions)) {
    const facts = name === "connector" ? ["uid", "statfs"] : ["uid", "statfs", "systemMemoryInfo"];
    assertEquals([name, Array.isArray(run), Array.isArray(env), sys], [name, name !== "serve", true, facts]);
    assertEquals([ffi, all], [undefined, undefined]);
    assertEquals([name, (env as string[]).includes("REGISTRY_SIGNING_KEYS")], [name, name === "serve"]);
  }
});

Deno.test("the context reads every variable that it lists, and no other", async () => {
  for (const file of [...Deno.readDirSync(new URL("cli", ROOT))].filter(({ isFile }) => isFile)) {
    const text = await Deno.readTextFile(new URL(`cli/${file.name}`, ROOT));
    for (const [, name = ""] of text.matchAll(/env\("([A-Za-z_]+)"\)/g)) {
      assert((ENVIRONMENT as readonly string[]).includes(name), `${file.name}: ${name}`);
    }
  }
});

Deno.test("the npm package holds JavaScript only and depends on one pinned Deno", () => {
  const { files, dependencies, bin, engines, scripts } = packageJson();
  assertEquals(files, ["svc.cjs", "lib", "README.md", "LICENSE"]);
  assertEquals([dependencies, bin], [{ deno: Deno.version.deno }, { svc: "svc.cjs" }]);
  assertEquals([engines, scripts], [{ node: ">=20" }, undefined]);
  for (const flag of ["--no-prompt", "-P=svc", "-P=serve"]) assert(launcher().includes(JSON.stringify(flag)), flag);
  // A permission in the launcher would be a second list of them.
  assertEquals(launcher().match(/--allow[^"]*/g), ["--allow-run="]);
});

Deno.test("a program that contains deno-std is not built, and svc does not contain it", async () => {
  await refuseRepackaging("svc.ts");
  await assertRejects(
    () => refuseRepackaging("tests/cli/compile_test.ts"),
    Error,
    "shared/jsr/assert/mod.ts imports deno-std, which only tests may use",
  );
});
