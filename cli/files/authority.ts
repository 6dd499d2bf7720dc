/** The certificate authorities of a file that a person trusts: `--ca`, `SVC_CA`. profile.ts keeps them. */
import { resolve } from "node:path";
import type { Authority, System } from "../context.ts";
import { CliError } from "../errors.ts";
import { readAtMost } from "./private_files.ts";

const AUTHORITY_BYTES = 1024 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/;

/**
 * @param what the source of the path, for the message: `--ca`, `SVC_CA`
 * @throws {CliError} `CLI_USAGE` when the file holds no certificate, or one that cannot be read
 */
export async function readAuthority(
  { trusting }: Pick<System, "trusting">,
  file: string,
  what: string,
): Promise<Authority> {
  const path = resolve(file);
  const pem = await readText(path, what);
  if (!CERTIFICATE.test(pem)) throw new CliError("CLI_USAGE", `${what}: ${path} holds no certificate in PEM form`);
  try {
    trusting?.(pem);
  } catch (cause) {
    throw new CliError("CLI_USAGE", `${what}: a certificate in ${path} cannot be read`, { cause });
  }
  return { path, pem };
}

async function readText(path: string, what: string): Promise<string> {
  const bytes = await readAtMost(path, AUTHORITY_BYTES + 1).catch((cause: CliError) => {
    throw new CliError("CLI_USAGE", `${what}: ${cause.message}`, { cause, fix: cause.fix });
  });
  if (bytes.length > AUTHORITY_BYTES) throw new CliError("CLI_USAGE", `${what}: ${path} is larger than 1 MiB`);
  return new TextDecoder().decode(bytes);
}
