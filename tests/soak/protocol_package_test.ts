/**
 * The package of the protocol as a user gets it: its files, its types under both ways in which TypeScript finds modules,
 * its README in Node and in Deno. And a client that a generator writes from `/openapi.json` sends a message with it.
 */
import { assert, assertEquals } from "@std/assert";
import { packProtocol } from "../tools/pack.ts";
import { isInstalled } from "../support/installed.ts";
import { npmInstall } from "../support/client_package.ts";
import { ChildProcess, ROOT, Service, tempFolder } from "../support/process.ts";

const TOOLS = [
  "typescript@5.9",
  "typescript-5.4@npm:typescript@5.4",
  "@types/node@20",
  "openapi-typescript@7",
  "openapi-fetch@0.17",
];
const MODES = [["nodenext", "nodenext"], ["bundler", "esnext"]] as const;
const README = Deno.readTextFileSync(`${ROOT}/shared/protocol/README.md`);
const EXAMPLE = /^```ts\n(.*?)^```$/ms.exec(README)?.[1] ?? "";

const folder = await tempFolder();
const tarball = await isInstalled("npm") ? await packed() : null;
globalThis.addEventListener("unload", () => Deno.removeSync(folder.path, { recursive: true }));
if (tarball === null) {
  console.log("The package of the protocol is NOT checked here: npm is missing or cannot get its tools");
}

/** Packs and installs the package into an empty folder; `null` when npm cannot get what the tests need. */
async function packed(): Promise<string | null> {
  const { path } = folder;
  await Deno.mkdir(`${path}/dist`);
  const tarball = await packProtocol(`${path}/dist`);
  await Deno.writeTextFile(`${path}/package.json`, JSON.stringify({ private: true, type: "module" }));
  return await npmInstall(path, tarball, ...TOOLS) ? tarball : null;
}

/** Runs a program in the folder of the package, and returns what it printed. */
async function run(command: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(command, { args, cwd: folder.path }).output();
  const text = new TextDecoder().decode(stdout);
  assert(success, `${command} ${args.join(" ")}\n${text}${new TextDecoder().decode(stderr)}`);
  return text;
}

/** Compiles a program with strict types, also those of the package. */
async function compile(file: string, lib: string, compiler = "typescript"): Promise<void> {
  for (const [resolution, module] of MODES) {
    const options = ["--strict", "--skipLibCheck", "false", "--target", "es2022", "--lib", lib];
    const tsc = `node_modules/${compiler}/bin/tsc`;
    await run("node", tsc, ...options, "--module", module, "--moduleResolution", resolution, "--types", "node", file);
  }
}

Deno.test({
  name: "the package has one module, its types and the vectors, and its README runs in Node and in Deno",
  ignore: tarball === null,
  async fn() {
    assert(tarball);
    const files = (await run("tar", "tf", tarball)).trim().split("\n").map((file) => file.replace("package/", ""));
    const vectors = [...Deno.readDirSync(`${ROOT}/tests/vectors`)].map(({ name }) => `vectors/${name}`);
    assertEquals(
      files.filter((file) => !file.startsWith("types/")).sort(),
      [
        ...["LICENSE", "README.md", "package.json", "protocol.js"],
        ...vectors,
      ].sort(),
    );
    for (const file of files.filter((file) => /\.(js|ts)$/.test(file))) {
      const text = await Deno.readTextFile(`${folder.path}/node_modules/@svc/protocol/${file}`);
      assert(!text.includes(ROOT) && !text.includes("/tmp/"), `${file} names a folder of this machine`);
    }
    await Deno.writeTextFile(`${folder.path}/example.ts`, EXAMPLE);
    // A program of Node has no types of a browser.
    for (const lib of ["es2022", "es2022,dom"]) await compile("example.ts", lib);
    await compile("example.ts", "es2022,dom", "typescript-5.4");
    assertEquals(await run("node", "example.js"), "true\n");
    const deno = ["run", "--quiet", "--no-prompt", "--node-modules-dir=manual", "example.ts"];
    assertEquals(await run(Deno.execPath(), ...deno), "true\n");
  },
});

const CLIENT = `
import createClient from "openapi-fetch";
import { fromBase64Url, HEADERS, keyPairFromSeed, proofHeaders, utf8Bytes } from "@svc/protocol";
import type { paths } from "./svc.js";

const { url, ait, seed, access, recipient } = JSON.parse(process.argv[2] ?? "");
const { privateKey } = await keyPairFromSeed(fromBase64Url(seed) ?? new Uint8Array());
const body = { message: "Hello of a generated client" };
const request = { method: "POST", origin: url, target: "/hooks/agent", body: utf8Bytes(JSON.stringify(body)), recipient };
const proof = await proofHeaders(request, { ait, privateKey }, Math.floor(Date.now() / 1000), crypto.randomUUID());
const of = (name: string) => proof[name] ?? "";
const { data, error } = await createClient<paths>({ baseUrl: url }).POST("/hooks/agent", {
  params: {
    header: {
      "X-Svc-Recipient-Agent-Did": recipient,
      "X-Svc-Timestamp": of(HEADERS.timestamp),
      "X-Svc-Nonce": of(HEADERS.nonce),
      "X-Svc-Body-SHA256": of(HEADERS.bodySha256),
      "X-Svc-Proof": of(HEADERS.proof),
      "X-Svc-Agent-Access": access,
    },
  },
  headers: { Authorization: of(HEADERS.authorization) },
  body,
});
if (error !== undefined) throw new Error(error.error.code);
console.log(data.accepted, data.delivered);
`;

Deno.test({
  name: "a client that openapi-typescript writes from /openapi.json sends a message",
  ignore: tarball === null,
  async fn() {
    await using service = await Service.open();
    const { a, b } = await service.agents();
    const connector = await service.connect(b);
    await run("npx", "openapi-typescript", `${service.url}/openapi.json`, "--output", "svc.ts");
    await Deno.writeTextFile(`${folder.path}/client.ts`, CLIENT);
    await compile("client.ts", "es2022,dom,dom.iterable");
    const { ait, accessToken: access } = a.identity;
    const given = { url: service.url, ait, seed: a.keys.seed, access, recipient: b.identity.did };
    await using child = new ChildProcess([`${folder.path}/client.js`, JSON.stringify(given)], {}, "node");
    assertEquals([(await child.status).code, child.stdout.text], [0, "true true\n"], child.stderr.text);
    await connector.close();
  },
});
