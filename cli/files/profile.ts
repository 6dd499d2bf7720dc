/**
 * Profiles are configuration folders side by side. Each has a `profile.json` for settings of this machine, beside the
 * `config.json` that names the registry. What a person trusts is saved there once, because every later command would
 * otherwise need `--ca` or `--allow-insecure`.
 */
import { basename, dirname, join, resolve } from "node:path";
import { isLoopback, parseServiceUrl } from "../../shared/client/service_url.ts";
import { DEFAULT_PROFILE, isProfileName, profileFolder, PROFILES_FOLDER } from "../../shared/client/user_folder.ts";
import { isRecord, tryParse } from "../../shared/protocol/json_text.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Authority, Context, System } from "../context.ts";
import { CliError } from "../errors.ts";
import { shellWord } from "../terminal/output.ts";
import { ensureConfigDir } from "./config_dir.ts";
import { withConfigLock } from "./lock.ts";
import { readAtMost, readPrivate, removeFile, writePrivate } from "./private_files.ts";

const PROFILE_FILE = "profile.json", CA_FILE = "ca.pem";
const MAX_BYTES = 64 * 1024;
/** Largest file of certificate authorities, in bytes. With more, a wrong file would fill the memory. */
const CA_MAX_BYTES = 1024 * 1024;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/;
const { historyDays: HISTORY_DAYS, historyDaysMax: HISTORY_DAYS_MAX } = LIMITS;
/** How a person at a terminal is told of messages; the second is the default. */
export const NOTIFY = ["off", "bell", "desktop"] as const;
export type Notify = (typeof NOTIFY)[number];
/** Enough for a registry and its proxy, and for those of the old server while a person moves to a new one. */
const ORIGINS_MAX = 8;
const PROFILES_MAX = 1_000;

export interface ProfileSettings {
  /** `ca.pem` when its authorities are trusted too, else `null`. */
  ca: typeof CA_FILE | null;
  /** Origins to which secrets may be sent with plain http. */
  insecureOrigins: readonly string[];
  notify: Notify;
  historyDays: number;
}

type Folder = Pick<Context, "configDir">;

/** Returns the folder of a profile. @throws {CliError} `CLI_USAGE` for a name that no profile can have */
export function folderOfProfile(baseDir: string, name: string): string {
  if (isProfileName(name)) return profileFolder(baseDir, name);
  throw new CliError("CLI_USAGE", `A profile is 1 to 32 of a-z, 0-9 and -, not "${name}"`);
}

/** Returns the folders of all profiles by name, that of the configuration folder first. */
export function profileFolders({ baseDir }: { baseDir: string }): Map<string, string> {
  const names: string[] = [];
  try {
    for (const { name, isDirectory } of Deno.readDirSync(join(baseDir, PROFILES_FOLDER))) {
      if (isDirectory && isProfileName(name) && name !== DEFAULT_PROFILE && names.length < PROFILES_MAX) {
        names.push(name);
      }
    }
  } catch (error) {
    // A file in place of the folder counts as no profiles, so that other commands run. Creating a profile reports it.
    if (!(error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory)) throw error;
  }
  return new Map([DEFAULT_PROFILE, ...names.sort()].map((name) => [name, profileFolder(baseDir, name)]));
}

/** Returns the profile of a folder, `null` for the default. Needed where services and hosts name only the folder. */
export function profileOf({ configDir }: Folder): string | null {
  const name = basename(configDir);
  return basename(dirname(configDir)) === PROFILES_FOLDER && isProfileName(name) ? name : null;
}

/** Returns the settings of the folder. @throws {CliError} `CLI_FILE_INVALID` */
export function readProfile(folder: Folder): ProfileSettings {
  const { ca = null, insecureOrigins = [], notify: told = NOTIFY[1], historyDays = HISTORY_DAYS } = members(folder);
  const areOrigins = Array.isArray(insecureOrigins) && insecureOrigins.length <= ORIGINS_MAX &&
    insecureOrigins.every((origin) => typeof origin === "string" && parseServiceUrl(origin) === origin);
  const isKnownCa = ca === null || ca === CA_FILE;
  const isDays = typeof historyDays === "number" && Number.isInteger(historyDays) && historyDays >= 0 &&
    historyDays <= HISTORY_DAYS_MAX;
  const notify = NOTIFY.find((known) => known === told);
  if (!areOrigins || !isKnownCa || !isDays || notify === undefined) throw damaged(folder);
  return { ca, insecureOrigins, notify, historyDays };
}

/** Changes or creates the settings. Members that this version does not know stay, because a newer one may need them. */
export async function updateProfile(ctx: Context, change: Partial<ProfileSettings>): Promise<void> {
  await withConfigLock(ctx, async () => {
    const profile = { ...members(ctx), ...change, version: 1 };
    await writePrivate(ctx.random, join(ctx.configDir, PROFILE_FILE), `${JSON.stringify(profile, null, 2)}\n`);
  });
}

/**
 * Returns the authorities of a file that a person trusts.
 *
 * @param what the source of the path, for the message: `--ca`, `SVC_CA`
 * @throws {CliError} `CLI_USAGE` when the file holds no certificate, or one that cannot be read
 */
export async function readAuthority(
  { trusting }: Pick<System, "trusting">,
  file: string,
  what: string,
): Promise<Authority> {
  const path = resolve(file);
  const bytes = await readAtMost(path, CA_MAX_BYTES + 1).catch((cause: CliError) => {
    throw new CliError("CLI_USAGE", `${what}: ${cause.message}`, { cause, fix: cause.fix });
  });
  if (bytes.length > CA_MAX_BYTES) throw new CliError("CLI_USAGE", `${what}: ${path} is larger than 1 MiB`);
  const pem = new TextDecoder().decode(bytes);
  if (!CERTIFICATE.test(pem)) throw new CliError("CLI_USAGE", `${what}: ${path} holds no certificate in PEM form`);
  try {
    trusting?.(pem);
  } catch (cause) {
    throw new CliError("CLI_USAGE", `${what}: a certificate in ${path} cannot be read`, { cause });
  }
  return { path, pem };
}

/** Saves a copy of the authorities; `null` ends the trust. */
export async function saveAuthority(ctx: Context, authority: Authority | null): Promise<void> {
  const path = join(ctx.configDir, CA_FILE);
  await ensureConfigDir(ctx);
  // The file is written before the settings and removed after them, because commands refuse to run when the settings
  // name a missing file.
  if (authority !== null) await writePrivate(ctx.random, path, authority.pem);
  await updateProfile(ctx, { ca: authority === null ? null : CA_FILE });
  if (authority === null) await removeFile(path);
}

/** Saves the origins that may be used with plain http, in place of the saved ones. @throws {CliError} `CLI_USAGE` */
export async function saveInsecureOrigins(ctx: Context, origins: readonly string[]): Promise<void> {
  const insecureOrigins = [...new Set(origins)];
  if (insecureOrigins.length > ORIGINS_MAX) {
    throw new CliError("CLI_USAGE", `A profile has at most ${ORIGINS_MAX} origins`);
  }
  await updateProfile(ctx, { insecureOrigins });
}

/** Returns for how many days texts are kept. @param text `0` to `365` @throws {CliError} `CLI_USAGE` */
export function parseHistoryDays(text: string): number {
  const days = /^[0-9]{1,3}$/.test(text) ? Number(text) : Infinity;
  if (days <= HISTORY_DAYS_MAX) return days;
  const problem = `historyDays is a number from 0 to ${HISTORY_DAYS_MAX}, not "${text.slice(0, 40)}"`;
  throw new CliError("CLI_USAGE", problem);
}

/**
 * Saves what the options of this command allowed for the server that was just saved: its certificate authority, and its
 * origins with plain http.
 *
 * @param origins those of registry and proxy
 */
export async function saveTrust(ctx: Context, origins: readonly string[]): Promise<void> {
  const plain = origins.filter(isPlain);
  if (ctx.allowInsecure && plain.length > 0) await saveInsecureOrigins(ctx, plain.slice(-ORIGINS_MAX));
  if (ctx.authority === undefined || ctx.authority.isSaved) return;
  await saveAuthority(ctx, ctx.authority);
  const at = ctx.out.hereWords.indexOf("--ca");
  if (at !== -1) ctx.out.hereWords = ctx.out.hereWords.filter((_, i) => i !== at && i !== at + 1);
}

/** Returns true when others on the network can read the secrets that are sent to an origin. */
export function isPlain(origin: string): boolean {
  return origin.startsWith("http:") && !isLoopback(origin);
}

/** Returns the saved authorities; `null` without any. @throws {CliError} `CLI_FILE_INVALID` */
export function savedAuthority(folder: Folder): Authority | null {
  if (readProfile(folder).ca === null) return null;
  const path = join(folder.configDir, CA_FILE);
  const pem = readPrivate(path, CA_MAX_BYTES);
  if (pem !== null) return { path, pem, isSaved: true };
  throw new CliError("CLI_FILE_INVALID", `${path} is missing`, {
    fix: "Save it again with svc profile set ca <file>, or run svc profile set ca none.",
  });
}

function members(folder: Folder): Record<string, unknown> {
  const text = readPrivate(join(folder.configDir, PROFILE_FILE), MAX_BYTES);
  if (text === null) return {};
  const value = tryParse(text);
  if (isRecord(value) && value.version === 1) return value;
  throw damaged(folder);
}

function damaged({ configDir }: Folder): CliError {
  const path = join(configDir, PROFILE_FILE);
  return new CliError("CLI_FILE_INVALID", `${path} is damaged`, {
    fix: `Delete it, and set again what it held with svc profile set: rm ${shellWord(path)}`,
  });
}

/**
 * Returns the origin of a URL that secrets may be sent to.
 *
 * @param what the source of the URL, for the message: `--registry-url`, `registryUrl in config.json`
 * @throws {CliError} `CLI_USAGE` for an invalid URL, `CLI_INSECURE_URL` for plain http to another machine
 */
export function secureServiceUrl(
  ctx: Pick<Context, "configDir" | "allowInsecure">,
  text: string,
  what: string,
): string {
  const origin = parseServiceUrl(text);
  if (origin === null) {
    throw new CliError("CLI_USAGE", `${what} is not an address such as https://registry.example: "${text}"`);
  }
  if (!ctx.allowInsecure && isPlain(origin) && !readProfile(ctx).insecureOrigins.includes(origin)) {
    throw new CliError("CLI_INSECURE_URL", `${what} is ${origin}: plain http would expose your secrets to the network`);
  }
  return origin;
}
