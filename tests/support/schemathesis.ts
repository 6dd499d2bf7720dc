/** Finds or installs schemathesis, a test kit for OpenAPI, in an environment of Python of its own. */
import { succeeds } from "./installed.ts";

/** The version that the tests are made for: a later one finds other things. */
export const SCHEMATHESIS = "schemathesis==4.32.5";

/**
 * Returns the path of the program, or `null` where Python, its venv or pip is missing or cannot reach a package index. The
 * environment is kept in the cache of the user, so that a clean checkout finds it again.
 */
export async function schemathesisProgram(): Promise<string | null> {
  const cache = Deno.env.get("XDG_CACHE_HOME") || `${Deno.env.get("HOME") ?? ""}/.cache`;
  const folder = `${cache}/svc/${SCHEMATHESIS.replace("==", "-")}`;
  const program = `${folder}/bin/schemathesis`;
  if (await succeeds(program, ["--version"])) return program;
  const isInstalled = await succeeds("python3", ["-m", "venv", folder]) &&
    await succeeds(`${folder}/bin/pip`, ["install", "--quiet", SCHEMATHESIS]);
  return isInstalled && await succeeds(program, ["--version"]) ? program : null;
}
