/** The notice that the server runs a newer version, once a day. */
import { join } from "node:path";
import type { Context, SeenVersion } from "./context.ts";
import { readPrivate, writePrivate } from "./files/private_files.ts";
import { DAY_MS } from "../shared/clock.ts";
import { parseIso, toIso } from "../shared/protocol/time.ts";

const NOTICE_FILE = "version-notice.json";
const NOTICE_BYTES = 1_000;

/** Returns true when a version is higher than another one; false for a text that is no version. */
export function isNewer(version: string, than: string): boolean {
  const [found, own] = [version, than].map((text) => /^\d{1,6}\.\d{1,6}\.\d{1,6}(?![.\d])/.exec(text)?.[0]);
  return found !== undefined && own !== undefined && found.localeCompare(own, "en", { numeric: true }) > 0;
}

/**
 * Prints the notice on a terminal, at most once a day, and never with `--json` or `SVC_NO_NOTICE=1`. Never throws,
 * because the command itself has already succeeded or failed.
 */
export async function tellNewerVersion(ctx: Context, { version, registryUrl }: SeenVersion): Promise<void> {
  const [plain = ""] = /^[\d.]+/.exec(version) ?? [];
  const isSilent = ctx.out.json || !ctx.terminal.stderrIsTerminal || ctx.env("SVC_NO_NOTICE") === "1";
  if (isSilent || !isNewer(version, ctx.version)) return;
  try {
    const path = join(ctx.configDir, NOTICE_FILE), now = ctx.clock.now();
    const told = parseIso(JSON.parse(readPrivate(path, NOTICE_BYTES) ?? "{}").toldAt ?? "");
    if (told !== null && now - told < DAY_MS && told <= now) return;
    // Written before the notice is printed, because every command would print it if the file cannot be written.
    await writePrivate(ctx.random, path, `${JSON.stringify({ toldAt: toIso(now) })}\n`);
    ctx.out.note(`The server runs svc ${plain}, this is ${ctx.version}. How to update: ${registryUrl}/join`);
  } catch {
    // The file cannot be used. Nothing is printed, because without the file every command would print the notice.
  }
}
