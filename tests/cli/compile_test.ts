/** What the build tools check in their results: header and machine, the stub's version, permissions, the package. */
import { assert, assertEquals } from "@std/assert";
import { ENVIRONMENT } from "../../cli/context.ts";
import { PERMISSIONS } from "../../cli/autostart/permissions.ts";
import { machineOf, namesVersion, TARGETS } from "../tools/compile.ts";
import { launcher, packageJson } from "../tools/pack.ts";

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

Deno.test("the binary is built with named permissions and never asks", () => {
  assert(PERMISSIONS.includes("--no-prompt"));
  assertEquals(PERMISSIONS.filter((flag) => /all$|^-A$|allow-(?:run$|ffi|env$|sys$)/.test(flag)), []);
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
  const { files, dependencies, bin } = packageJson();
  assertEquals(files, ["svc.cjs", "cli.js", "LICENSE"]);
  assertEquals([dependencies, bin], [{ deno: Deno.version.deno }, { svc: "svc.cjs" }]);
  for (const flag of PERMISSIONS) assert(launcher().includes(JSON.stringify(flag)), flag);
  assert(launcher().split("\n").length < 60, "the launcher is short");
});
