/**
 * The package of the protocol, `@svc/protocol`: one ES module, its declarations, which TypeScript's own compiler writes,
 * the vectors, README and LICENSE. pack.ts calls it.
 */
import project from "../../deno.json" with { type: "json" };
import protocol from "../../shared/protocol/deno.json" with { type: "json" };
import { refuseRepackaging } from "./compile.ts";
import { copyFolder, copyOfSources, declaration, deno, packageText, ROOT } from "./pack_client.ts";

const LIBRARY = "shared/protocol";
/** Their types are part of the declarations, so they are installed beside the module and are not inside it. */
const DEPENDENCIES = ["hpke", "zod"] as const;

/** Content of package.json. */
export function protocolPackageJson(): Record<string, unknown> {
  return {
    name: protocol.name,
    version: protocol.version,
    description: "The rules of the svc network for clients",
    license: protocol.license,
    type: "module",
    exports: { ".": { types: "./types/mod.d.ts", default: "./protocol.js" }, "./vectors/*": "./vectors/*" },
    files: ["protocol.js", "types", "vectors", "README.md", "LICENSE"],
    engines: { node: ">=20" },
    dependencies: Object.fromEntries(DEPENDENCIES.map((name) => [name, project.imports[name].split("@").at(-1)])),
  };
}

/** Writes the content of the package into a folder. */
export async function writeProtocolPackage(folder: string): Promise<void> {
  await using copy = await copyOfSources();
  const sources = copy.path;
  await refuseRepackaging(`${LIBRARY}/mod.ts`, sources);
  const externals = DEPENDENCIES.flatMap((name) => ["--external", name]);
  const options = ["--quiet", "--platform=browser", ...externals, "-o", `${folder}/protocol.js`];
  await deno(sources, "bundle", ...options, `${LIBRARY}/mod.ts`);
  const files = await modulesIn(`${sources}/${LIBRARY}`);
  await deno(
    sources,
    "transpile",
    "--declaration",
    "--outdir",
    "types",
    ...files.map((file) => `${LIBRARY}/${file}`),
  );
  for (const file of files) {
    const name = file.replace(/\.ts$/, ".d.ts"), target = `${folder}/types/${name}`;
    await Deno.mkdir(target.slice(0, target.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(target, declaration(await Deno.readTextFile(`${sources}/types/${LIBRARY}/${name}`)));
  }
  await copyFolder(`${ROOT}tests/vectors`, `${folder}/vectors`);
  await Deno.writeTextFile(`${folder}/package.json`, packageText(protocolPackageJson()));
  await Deno.copyFile(`${ROOT}${LIBRARY}/README.md`, `${folder}/README.md`);
  await Deno.copyFile(`${ROOT}LICENSE`, `${folder}/LICENSE`);
}

/** Paths of the modules below a folder. */
async function modulesIn(folder: string, prefix = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(`${folder}/${prefix}`)) {
    if (isDirectory) found.push(...await modulesIn(folder, `${prefix}${name}/`));
    else if (name.endsWith(".ts")) found.push(prefix + name);
  }
  return found.sort();
}
