/** `svc profile …`: configuration folders side by side, and what each of them trusts. */
import { basename } from "node:path";
import { didYouMean } from "../../shared/did_you_mean.ts";
import { configPath, readConfig } from "../account/config_store.ts";
import { command } from "../command_line/command.ts";
import { parseWord } from "../command_line/numbers.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { fields } from "../terminal/output.ts";
import { AgentStore } from "../agents/agent_store.ts";
import { DEFAULT_PROFILE } from "../../shared/client/user_folder.ts";
import * as profiles from "../files/profile.ts";

const SETTINGS = ["ca", "insecure", "historyDays", "notify"] as const;
const NONE = "none";

export const COMMANDS = [
  command({
    path: ["profile", "list"],
    summary: "List the profiles of this machine",
    details: [
      "A profile is a configuration folder with its own account and agents. --profile <name> or SVC_PROFILE chooses one, for",
      `any command; the first command that saves something creates it. ${DEFAULT_PROFILE} is the one without a name.`,
    ],
    examples: { "svc profile list": "Show the accounts of this machine" },
    async run(ctx) {
      const rows = await Promise.all(
        [...profiles.profileFolders(ctx)].map(async ([name, folder]) => {
          const { agents } = await new AgentStore({ ...ctx, configDir: folder }).names();
          return { name, folder, ...accountOf(ctx, folder), agents, isCurrent: folder === ctx.configDir };
        }),
      );
      ctx.out.list({ profiles: rows }, rows, "No profiles.", [
        { head: "PROFILE", of: ({ name, isCurrent }) => isCurrent ? `${name} *` : name },
        { head: "REGISTRY", rank: 1, of: ({ registryUrl }) => registryUrl ?? "" },
        { head: "NAME", rank: 2, of: ({ humanName }) => humanName ?? "" },
        { head: "AGENTS", rank: 1, of: ({ agents }) => agents.join(" ") },
        { head: "FOLDER", isWide: true, of: ({ folder }) => folder },
      ]);
    },
  }),
  command({
    path: ["profile", "show"],
    summary: "Show the profile in use: its folder, its server and what it trusts",
    examples: { "svc profile show --profile work": "Show what the profile work trusts" },
    run(ctx) {
      const { ca, insecureOrigins, notify, historyDays } = profiles.readProfile(ctx);
      const folders = profiles.profileFolders(ctx), wanted = basename(ctx.configDir);
      const [name] = [...folders].find(([, folder]) => folder === ctx.configDir) ?? [];
      if (name === undefined) {
        const fix = "svc profile list shows the profiles; the first command that saves something creates one.";
        const known = didYouMean(wanted, folders.keys());
        throw new CliError("CLI_USAGE", `There is no profile ${wanted}.${known}`, { fix });
      }
      const account = accountOf(ctx, ctx.configDir);
      const path = profiles.savedAuthority(ctx)?.path ?? null;
      ctx.out.result({ name, folder: ctx.configDir, ...account, ca: path, insecureOrigins, historyDays, notify }, [
        ctx.out.bold(name),
        ...fields([
          ["folder", ctx.configDir],
          ["registry", account.registryUrl],
          ["person", account.humanName],
          ["authorities", ca === null ? "those of the system" : `${path}, and those of the system`],
          ["plain http", insecureOrigins.length === 0 ? "this machine only" : insecureOrigins.join(" ")],
          ["texts kept", historyDays === 1 ? "1 day" : `${historyDays} days`],
          ["told of messages", notify],
        ]),
      ]);
    },
  }),
  command({
    path: ["profile", "set"],
    summary: "Set what a profile trusts, for how many days it keeps texts, and how it tells of messages",
    details: [
      "--ca and --allow-insecure of svc join, admin bootstrap, config init and config set do the same for their server.",
    ],
    args: {
      setting: { summary: "ca, insecure, historyDays or notify", complete: SETTINGS },
      value: {
        summary:
          `ca: a PEM file, or ${NONE}; insecure: addresses that replace the saved ones, or ${NONE}; historyDays: 0 to 365; notify: ${
            profiles.NOTIFY.join(", ")
          }`,
        repeat: true,
      },
    },
    examples: {
      "svc profile set ca company.pem": "Trust this authority in every command",
      "svc profile set historyDays 30": "Keep texts for 30 days",
      "svc profile set notify desktop": "Let the terminal show that messages arrived",
      "svc profile set insecure none": "Refuse plain http to other machines again",
    },
    async run(ctx, { args: { setting, value: values } }) {
      const [value = ""] = values;
      const isNone = values.length === 1 && value === NONE;
      if (setting === "ca" && values.length === 1) {
        await profiles.saveAuthority(ctx, isNone ? null : await profiles.readAuthority(ctx, value, "ca"));
      } else if (setting === "insecure" && values.length > 0) {
        const allowing = { ...ctx, allowInsecure: true };
        const origins = isNone ? [] : values.map((text) => profiles.secureServiceUrl(allowing, text, "insecure"));
        const other = origins.find((origin) => !profiles.isPlain(origin));
        if (other !== undefined) {
          throw new CliError("CLI_USAGE", `${other} needs no permission: it is no plain http to another machine`);
        }
        await profiles.saveInsecureOrigins(ctx, origins);
      } else if (setting === "historyDays" && values.length === 1) {
        await profiles.updateProfile(ctx, { historyDays: profiles.parseHistoryDays(value) });
      } else if (setting === "notify" && values.length === 1) {
        await profiles.updateProfile(ctx, { notify: parseWord(profiles.NOTIFY, value, "notify") });
      } else {
        const others =
          "ca to one file, insecure to addresses such as http://registry.lan:8787, historyDays to a number";
        throw new CliError("CLI_USAGE", `Set ${others}, or notify to ${profiles.NOTIFY.join(", ")}`);
      }
      const data = { setting, value: isNone ? null : values, folder: ctx.configDir };
      ctx.out.result(data, `${setting} is ${isNone ? "not set" : "set"}.`);
    },
  }),
];

function accountOf(ctx: Context, configDir: string): { registryUrl: string | null; humanName: string | null } {
  try {
    const { registryUrl = null, humanName = null } = readConfig({ configDir }) ?? {};
    return { registryUrl, humanName };
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    ctx.out.warn(`${configPath({ configDir })} cannot be read`);
    return { registryUrl: null, humanName: null };
  }
}
