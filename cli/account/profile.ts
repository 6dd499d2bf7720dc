/** `profile.json` of the configuration folder: settings of this machine that are none of the registry. */
import * as z from "zod";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { PrivateFolder } from "../files/private_folder.ts";

const PROFILE_FILE = "profile.json";

/** Days for which the texts of read and sent messages are kept. */
const HISTORY_DAYS = 7, HISTORY_DAYS_MAX = 365;

const Profile = z.looseObject({
  version: z.literal(1),
  historyDays: z.int().min(0).max(HISTORY_DAYS_MAX).default(HISTORY_DAYS),
});

/** Returns for how many days texts are kept. @throws {CliError} `CLI_FILE_INVALID` */
export function historyDays(ctx: Context): number {
  const text = new PrivateFolder(ctx, ctx.configDir).read(PROFILE_FILE);
  if (text === null) return HISTORY_DAYS;
  try {
    return Profile.parse(JSON.parse(text)).historyDays;
  } catch {
    throw new CliError("CLI_FILE_INVALID", `${ctx.configDir}/${PROFILE_FILE} is damaged`, {
      fix: `It is like {"version":1,"historyDays":${HISTORY_DAYS}}; the days are from 0 to ${HISTORY_DAYS_MAX}.`,
    });
  }
}
