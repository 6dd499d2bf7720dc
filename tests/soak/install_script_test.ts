/**
 * The installer of a release under the shells of this machine, against a release that a local server offers. The
 * program of the release is a short script: the installer does not know what it installs.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ROOT, tempFolder } from "../support/process.ts";

const SCRIPT = await Deno.readTextFile(`${ROOT}/docs/examples/install.sh`);
const PROGRAM = new TextEncoder().encode("#!/bin/sh\necho 'svc of the release'\n");
const SYSTEM = Deno.build.os === "darwin" ? "macos" : "linux";
const FILE = `svc-${SYSTEM}-${Deno.build.arch === "aarch64" ? "arm64" : "x64"}`;
/** What the installer calls, without the programs that download and compare. */
const BASIC = ["uname", "mktemp", "grep", "cp", "chmod", "mv", "mkdir", "rm", "cat"];

const found = async (name: string) => {
  for (const folder of (Deno.env.get("PATH") ?? "").split(":")) {
    if ((await Deno.stat(`${folder}/${name}`).catch(() => null))?.isFile) return `${folder}/${name}`;
  }
  return null;
};
const paths = new Map<string, string | null>();
for (const name of [...BASIC, "dash", "bash", "curl", "wget", "sha256sum", "shasum"]) {
  paths.set(name, await found(name));
}
const has = (name: string) => paths.get(name) !== null;
const SHELLS = ["dash", "bash"].filter(has);
for (const name of ["dash", "bash", "curl", "wget", "sha256sum", "shasum"]) {
  if (!has(name)) console.log(`The installer is NOT checked with ${name}: it is not on this machine`);
}

/** A release on loopback, and a home for its user. */
class Release implements AsyncDisposable {
  readonly files = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly asked: string[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  private constructor(readonly folder: AsyncDisposable & { path: string }) {
    this.#server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
      const { pathname } = new URL(request.url);
      this.asked.push(pathname);
      const file = this.files.get(pathname.split("/").at(-1) ?? "");
      return file ? new Response(file) : new Response(null, { status: 404 });
    });
  }

  static async open(): Promise<Release> {
    const release = new Release(await tempFolder());
    await release.offer();
    return release;
  }

  /** Offers the program with its digest. */
  async offer(): Promise<void> {
    const hex = new Uint8Array(await crypto.subtle.digest("SHA-256", PROGRAM)).toHex();
    const lines = [`${"0".repeat(64)}  svc-other-x64`, `${hex}  ${FILE}`, `${"1".repeat(64)}  ${FILE}.exe`];
    this.files.set(FILE, PROGRAM.slice());
    this.files.set("SHA256SUMS", new TextEncoder().encode(lines.map((line) => `${line}\n`).join("")));
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** The default folder of the installer. */
  get installed(): string {
    return `${this.folder.path}/home/.local/bin`;
  }

  /** A folder with links to these programs only. */
  async only(...names: string[]): Promise<string> {
    const folder = await Deno.makeTempDir({ dir: this.folder.path });
    for (const name of names) await Deno.symlink(paths.get(name) ?? "", `${folder}/${name}`);
    return folder;
  }

  async run(shell: string, env: Record<string, string> = {}, script = SCRIPT) {
    const path = `${this.folder.path}/install.sh`;
    await Deno.writeTextFile(path, script);
    const { code, stdout, stderr } = await new Deno.Command(paths.get(shell) ?? "", {
      args: [path],
      clearEnv: true,
      env: {
        HOME: `${this.folder.path}/home`,
        PATH: Deno.env.get("PATH") ?? "",
        SVC_RELEASE_URL: this.url,
        TMPDIR: await this.#temporary(),
        ...env,
      },
      stdin: "null",
    }).output();
    const decoder = new TextDecoder();
    return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  }

  async #temporary(): Promise<string> {
    await Deno.mkdir(`${this.folder.path}/temporary`, { recursive: true });
    return `${this.folder.path}/temporary`;
  }

  /** Names and content of everything that a run may have left. */
  async left(): Promise<string[]> {
    const left: string[] = [];
    for (const folder of [this.installed, await this.#temporary()]) {
      for await (const { name } of list(folder)) left.push(`${name}: ${await Deno.readTextFile(`${folder}/${name}`)}`);
    }
    return left;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    await this.folder[Symbol.asyncDispose]();
  }
}

async function* list(folder: string): AsyncGenerator<Deno.DirEntry> {
  if (await Deno.stat(folder).catch(() => null)) yield* Deno.readDir(folder);
}

Deno.test("the check that the installer prints works when it is pasted, also for a folder with a space", async () => {
  await using release = await Release.open();
  const folder = `${release.folder.path}/its own bin`;
  const { code, stdout } = await release.run("dash", { SVC_INSTALL_DIR: folder });
  assertEquals(code, 0);
  const [, words = ""] = /^ {2}gh (attestation verify .*) --repo/m.exec(stdout) ?? [];
  const said = await new Deno.Command("sh", { args: ["-c", `printf '%s\\n' ${words}`] }).output();
  assertEquals(new TextDecoder().decode(said.stdout), `attestation\nverify\n${folder}/svc\n`);
});

Deno.test("the installer installs a file that runs, with every tool that can download and compare", async () => {
  await using release = await Release.open();
  const runs = [["dash", "curl", "sha256sum"], ["bash", "curl", "sha256sum"], ["dash", "wget", "shasum"]];
  for (const [shell = "", ...tools] of runs.filter((names) => names.every(has))) {
    await Deno.remove(`${release.folder.path}/home`, { recursive: true }).catch(() => {});
    const { code, stdout, stderr } = await release.run(shell, { PATH: await release.only(...BASIC, ...tools) });
    assertEquals([code, stderr], [0, ""], `${shell} with ${tools}`);
    assertStringIncludes(stdout, `Installed ${release.installed}/svc\n`);
    assertStringIncludes(stdout, `Add ${release.installed} to PATH.`);
    assertStringIncludes(stdout, "come from the same place");
    assertStringIncludes(stdout, `gh attestation verify '${release.installed}/svc' --repo <owner>/<name>`);
    const program = await new Deno.Command(`${release.installed}/svc`).output();
    assertEquals(new TextDecoder().decode(program.stdout), "svc of the release\n");
    assertEquals((Deno.statSync(`${release.installed}/svc`).mode ?? 0) & 0o777, 0o755);
    assertEquals(await release.left(), [`svc: ${new TextDecoder().decode(PROGRAM)}`]);
  }
});

Deno.test("the installer replaces an older program, takes a version and a folder, and names no path twice", async () => {
  await using release = await Release.open();
  const folder = `${release.folder.path}/with space`;
  await Deno.mkdir(folder);
  await Deno.writeTextFile(`${folder}/svc`, "an older one");
  const path = `${Deno.env.get("PATH")}:${folder}`;
  for (const version of ["0.1.0", "v0.1.0"]) {
    const { code, stdout } = await release.run("dash", { SVC_INSTALL_DIR: folder, SVC_VERSION: version, PATH: path });
    assertEquals([code, stdout.includes("to PATH")], [0, false]);
  }
  assertEquals(await Deno.readFile(`${folder}/svc`), PROGRAM);
  assertEquals(new Set(release.asked), new Set(["SHA256SUMS", FILE].map((file) => `/download/v0.1.0/${file}`)));
});

Deno.test("the installer changes nothing when one byte of the program or of its digest differs", async () => {
  await using release = await Release.open();
  await Deno.mkdir(release.installed, { recursive: true });
  await Deno.writeTextFile(`${release.installed}/svc`, "an older one");
  const sums = release.files.get("SHA256SUMS") ?? new Uint8Array();
  const line = new TextDecoder().decode(sums).split("\n").findIndex((one) => one.endsWith(FILE));
  const start = line * "0".repeat(64).concat("  svc-other-x64\n").length;
  const places: [name: string, at: number][] = [];
  for (const at of [0, 17, PROGRAM.length - 1]) places.push([FILE, at]);
  for (const at of [0, 31, 63, 64, 65, 66, 65 + FILE.length, 66 + FILE.length]) places.push(["SHA256SUMS", start + at]);
  for (const [i, [name, at]] of places.entries()) {
    await release.offer();
    const bytes = release.files.get(name) ?? new Uint8Array();
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    const { code, stderr } = await release.run(SHELLS[i % SHELLS.length] ?? "", {});
    assertEquals([code, /Nothing was installed/.test(stderr)], [1, true], `${name} at ${at}: ${stderr}`);
    assertEquals(await release.left(), ["svc: an older one"]);
  }
});

Deno.test("the installer changes nothing when its own text is cut", async () => {
  await using release = await Release.open();
  const cuts: number[] = [];
  for (let at = 0; at < SCRIPT.length - 1; at += at < SCRIPT.length - 40 ? 10 : 1) cuts.push(at);
  const folder = `${release.folder.path}/cuts`;
  await Deno.mkdir(folder);
  for (const at of cuts) await Deno.writeTextFile(`${folder}/${at}`, SCRIPT.slice(0, at));
  for (const shell of SHELLS) {
    // One process reads every text, each in a copy of itself.
    const loop = `for file in "$CUTS"/*; do (. "$file") >/dev/null 2>&1; done; true`;
    assertEquals((await release.run(shell, { CUTS: folder }, loop)).code, 0);
  }
  assertEquals([release.asked, await release.left()], [[], []]);
});

Deno.test("the installer refuses an address, a version, a system or a machine that it cannot use", async () => {
  await using release = await Release.open();
  const folder = `${release.folder.path}/taken`;
  await Deno.mkdir(`${folder}/svc`, { recursive: true });
  const tools = ["curl", "sha256sum"].filter(has);
  const withoutSum = await release.only(...BASIC, "curl");
  const withoutDownload = await release.only(...BASIC, "sha256sum");
  const elsewhere = await release.only(...BASIC.filter((name) => name !== "uname"), ...tools);
  await Deno.writeTextFile(`${elsewhere}/uname`, "#!/bin/sh\necho Plan9\n", { mode: 0o755 });
  const cases: [env: Record<string, string>, text: string][] = [
    [{ SVC_RELEASE_URL: "" }, "Set SVC_RELEASE_URL"],
    [{ SVC_RELEASE_URL: "http://example.test" }, "must begin with https://"],
    [{ SVC_RELEASE_URL: "http://127.0.0.1.example.test/" }, "must begin with https://"],
    [{ SVC_RELEASE_URL: "http://127.0.0.1:1@example.test/" }, "must not hold a user name"],
    [{ SVC_RELEASE_URL: "ftp://127.0.0.1/" }, "must begin with https://"],
    [{ SVC_RELEASE_URL: "file:///tmp" }, "must begin with https://"],
    [{ SVC_VERSION: "0.1.0/../../x" }, "not a version"],
    [{ SVC_VERSION: "$(touch x)" }, "not a version"],
    [{ SVC_INSTALL_DIR: folder }, "is a folder"],
    [{ PATH: withoutSum }, "needs sha256sum or shasum"],
    [{ PATH: withoutDownload }, "needs curl or wget"],
    [{ PATH: elsewhere }, "no file for Plan9"],
  ];
  for (const [env, text] of cases) {
    const { code, stderr } = await release.run("dash", env);
    assertEquals(code, 1, JSON.stringify(env));
    assertStringIncludes(stderr, text);
  }
  assertEquals([release.asked, await release.left()], [[], []]);
  assertEquals([...Deno.readDirSync(`${folder}/svc`)], []);
});

Deno.test("the installer leaves nothing when the release lacks a file or the folder cannot be written", async () => {
  await using release = await Release.open();
  for (const name of ["SHA256SUMS", FILE]) {
    await release.offer();
    release.files.delete(name);
    const { code, stderr } = await release.run("dash");
    assertEquals([code, stderr.includes(`${name} could not be downloaded. Nothing was installed.`)], [1, true], stderr);
  }
  await release.offer();
  await Deno.writeTextFile(`${release.folder.path}/file`, "");
  const { code } = await release.run("dash", { SVC_INSTALL_DIR: `${release.folder.path}/file/bin` });
  assert(code !== 0);
  assertEquals(await release.left(), []);
});
