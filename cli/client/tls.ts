/** The authorities that are trusted in addition to the system's (D-167, D-232). Nothing turns verification off. */
import { resolve } from "node:path";
import type { System } from "../context.ts";
import { CliError } from "../errors.ts";

const MAX_BYTES = 1024 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/;

/**
 * Returns the system with the authorities of a file trusted in addition.
 *
 * @param option value of `--ca` (default `SVC_CA`)
 * @throws {CliError} `CLI_USAGE` when the file holds no certificate
 */
export async function withAuthority(world: System, option: string | undefined): Promise<System> {
  const file = option ?? world.env("SVC_CA");
  if (file === undefined) return world;
  const what = option === undefined ? "SVC_CA" : "--ca";
  const path = resolve(file);
  const pem = await readStart(path, what);
  if (!CERTIFICATE.test(pem)) throw new CliError("CLI_USAGE", `${what}: ${path} holds no certificate in PEM form`);
  try {
    return { ...world, authority: { path, pem }, fetch: world.trusting?.(pem) ?? world.fetch };
  } catch (cause) {
    throw new CliError("CLI_USAGE", `${what}: a certificate in ${path} cannot be read`, { cause });
  }
}

async function readStart(path: string, what: string): Promise<string> {
  try {
    using file = await Deno.open(path);
    const bytes = new Uint8Array(MAX_BYTES + 1);
    let length = 0;
    for (let n: number | null = 0; n !== null && length < bytes.length; length += n ?? 0) {
      n = await file.read(bytes.subarray(length));
    }
    if (length <= MAX_BYTES) return new TextDecoder().decode(bytes.subarray(0, length));
  } catch (cause) {
    throw new CliError("CLI_USAGE", `${what}: ${path} cannot be read`, { cause });
  }
  throw new CliError("CLI_USAGE", `${what}: ${path} is larger than 1 MiB`);
}
