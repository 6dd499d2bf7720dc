/** `svc mcp install`: writes and removes an entry and a hook (entry.ts) in the files of a host. */
import { basename, delimiter, dirname, join } from "node:path";
import type { AgentFolder } from "../agents/agent_store.ts";
import { chooseForHost, runtimeSettings, runtimeTarget, undoForHost } from "../connector/runtime/runtime_file.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { usualConfigDir } from "../../shared/client/user_folder.ts";
import { withHostsLock } from "../files/lock.ts";
import { saveFailed } from "../files/private_files.ts";
import type { PlatformId } from "../platforms/platform.ts";
import { addEntry, checkEntry, fragmentOf, removeEntry, type Target } from "./change.ts";
import { claudeHooksPath, type HostId, type HostRow, HOSTS, type Scope, type Wake, type Whereabouts } from "./table.ts";
import {
  entryName,
  hasInbox,
  isOwnHook,
  isOwnTool,
  type OwnCommand,
  toolCommand,
  type ToolSwitches,
  WAKE_PATH,
  wakeHook,
} from "./entry.ts";
import { isSame } from "./place.ts";
import { JSON_TEXT } from "./json_text.ts";
import { Records } from "./records.ts";
import { TOML_TEXT } from "./toml_text.ts";

/** A file in a project belongs to all who work on it, so others may read it. */
const NEW_MODE: Readonly<Record<Scope, number>> = { user: 0o600, project: 0o644 };

export interface InstallWish extends ToolSwitches {
  host: HostId;
  scope: Scope;
  /** Name of the entry; `undefined` for one that is made from the agent's name. */
  name: string | undefined;
  /** Program and first words of this svc. */
  own: readonly string[];
  project: string;
}

interface Messages {
  platform: PlatformId;
  /** True when this command has chosen the platform. */
  isNew: boolean;
}

type Plan = ReturnType<typeof planOf>;

/** Returns what `installEntry` would write. Changes nothing. @throws {CliError} `CLI_USAGE` */
export function planEntry(ctx: Context, folder: AgentFolder, wish: InstallWish) {
  return resultOf(planOf(ctx, folder, wish), [], messagesOf(ctx, folder));
}

/**
 * Writes the entry, and the hook if it is asked for. Both are checked first, because a refusal of the second would
 * otherwise leave only the first.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_FILE_INVALID`, `CLI_FILE_UNSAFE`, `CLI_SAVE_FAILED`, `CLI_BUSY`
 */
export async function installEntry(ctx: Context, folder: AgentFolder, wish: InstallWish) {
  const plan = planOf(ctx, folder, wish);
  const records = new Records(ctx, folder);
  return await withHostsLock(ctx, async () => {
    for (const one of plan.targets) {
      if (wish.scope === "project") await ensureProjectFolder(wish.project, dirname(one.path));
      await checkEntry(ctx, records, one);
    }
    const changed = await inOrder(plan.targets, (one) => addEntry(ctx, records, one));
    // An earlier hook would wake the model a second time for each message.
    const isInbox = wish.host === "claude-code" && wish.wake === "inbox";
    const [, hook] = isInbox ? planOf(ctx, folder, { ...wish, wake: "hook" }).targets : [];
    const hasHook = hook !== undefined && records.all().some(({ place }) => isSame(place, WAKE_PATH));
    const unhooked = hasHook && await removeEntry(ctx, records, hook) ? hook.path : null;
    return { ...resultOf(plan, changed, await chooseInbox(ctx, folder)), unhooked };
  });
}

/**
 * Removes the entry, and the hook. `changed` is false for what was not there.
 *
 * @throws {CliError} `CLI_FILE_INVALID` when it is not what svc wrote, `CLI_FILE_UNSAFE`, `CLI_SAVE_FAILED`, `CLI_BUSY`
 */
export async function removeInstalled(ctx: Context, folder: AgentFolder, wish: InstallWish) {
  const wake = wish.host === "claude-code" ? "auto" : undefined;
  const plan = planOf(ctx, folder, { ...wish, wake });
  const records = new Records(ctx, folder);
  return await withHostsLock(ctx, async () => {
    const changed = await inOrder(plan.targets, (one) => removeEntry(ctx, records, one));
    // The entry of another host still needs the choice.
    if (records.all().length === 0) await undoForHost(folder);
    return resultOf(plan, changed, messagesOf(ctx, folder));
  });
}

/**
 * Changes one file after the other, and returns the targets whose files are changed. An error also says that the first
 * file is already changed, because the person would otherwise not know of it.
 */
async function inOrder(targets: readonly Target[], change: (target: Target) => Promise<boolean>): Promise<Target[]> {
  const changed: Target[] = [];
  for (const one of targets) {
    try {
      if (await change(one)) changed.push(one);
    } catch (error) {
      const [first] = changed;
      if (first === undefined || !(error instanceof CliError)) throw error;
      const { code, message, fix, details } = error;
      throw new CliError(code, `${first.path} is changed already. ${message}`, { cause: error, fix, details });
    }
  }
  return changed;
}

/** The entries that svc wrote for an agent into any file of a host. @throws {CliError} `CLI_FILE_INVALID` */
export function recordedEntries(ctx: Context, folder: AgentFolder) {
  const records = new Records(ctx, folder);
  return records.all().map(({ path, place, written }) => {
    const target: Target = {
      host: "host",
      hostName: basename(path),
      path,
      project: null,
      editor: path.endsWith(".toml") ? TOML_TEXT : JSON_TEXT,
      place,
      isInArray: isSame(place, WAKE_PATH),
      value: (written.at(-1) ?? {}) as Target["value"],
      isOwn: (entry) => written.some((one) => isSame(one, entry)),
      newMode: NEW_MODE.user,
    };
    return { path, place: place.join("."), remove: () => withHostsLock(ctx, () => removeEntry(ctx, records, target)) };
  });
}

export async function isOnPath(ctx: Context, program: string): Promise<boolean> {
  const names = ctx.os === "windows" ? [`${program}.exe`, `${program}.cmd`] : [program];
  const paths = (ctx.env("PATH") ?? "").split(delimiter).filter((folder) => folder !== "")
    .flatMap((folder) => names.map((name) => join(folder, name)));
  const found = await Promise.all(paths.map((path) => Deno.stat(path).then(({ isFile }) => isFile, () => false)));
  return found.includes(true);
}

function planOf(ctx: Context, folder: AgentFolder, wish: InstallWish) {
  const { host, scope, wake } = wish;
  const row = HOSTS[host];
  if (wake !== undefined && !row.wakes.includes(wake)) throw noWake(row, wake);
  const where = whereabouts(ctx, folder, wish.project);
  const path = row.path(scope, where);
  if (path === null) throw new CliError("CLI_USAGE", `${row.name} has no file of the scope ${scope} here`);
  const name = entryName(folder.name, wish.name);
  const command: OwnCommand = { own: wish.own, agent: folder.name, here: hereWords(ctx) };
  const tool = toolCommand(command, wish);
  const project = scope === "project" ? wish.project : null;
  const common = { host, hostName: row.name, project, newMode: NEW_MODE[scope] };
  const targets: [Target, ...Target[]] = [{
    ...common,
    path,
    editor: row.format === "json" ? JSON_TEXT : TOML_TEXT,
    place: [...row.around, name],
    isInArray: false,
    value: { ...row.entry(tool.command, tool.args), ...hasInbox(wake) ? row.inboxEntry : {} },
    isOwn: (entry) => isOwnTool(command, entry),
  }];
  if (host === "claude-code" && (wake === "auto" || wake === "hook")) {
    targets.push({
      ...common,
      path: claudeHooksPath(scope, where),
      editor: JSON_TEXT,
      place: WAKE_PATH,
      isInArray: true,
      value: wakeHook(command, wish),
      isOwn: (entry) => isOwnHook(command, entry),
    });
  }
  return { row, name, tool, targets };
}

/** @returns the error for a host whose model cannot be woken in this way, with what a person does instead */
function noWake({ name, wakes }: HostRow, wake: Wake): CliError {
  const [known] = wakes;
  if (known !== undefined) {
    return new CliError("CLI_USAGE", `${name} has no way --wake ${wake}`, { fix: `Use --wake ${known}.` });
  }
  return new CliError("CLI_USAGE", `${name} documents no way to wake its model`, {
    fix: "Leave --wake out, and let the model call wait_for_message when it expects a message.",
  });
}

/**
 * What a command did with the files: that of the entry, and that of the hook if there is one. `unhooked`: the file of
 * an earlier hook that was removed.
 */
function resultOf({ row, name, tool, targets }: Plan, changed: readonly Target[], messages: Messages) {
  const fileOf = (one: Target) => ({ path: one.path, fragment: fragmentOf(one), changed: changed.includes(one) });
  const [entry, ...hooks] = targets, files = [fileOf(entry), ...hooks.map(fileOf)] as const;
  return { name, hostName: row.name, ...tool, files, messages, then: row.then, unhooked: null as string | null };
}

function whereabouts(ctx: Context, folder: AgentFolder, project: string): Whereabouts {
  const home = ctx.env("HOME") ?? (ctx.os === "windows" ? ctx.env("USERPROFILE") : undefined);
  if (home === undefined) {
    throw new CliError("CLI_NO_CONFIG_DIR", "No home directory is set, so the files of hosts cannot be found", {
      fix: "Set HOME.",
    });
  }
  const { env, os } = ctx;
  const stateDir = runtimeSettings(folder)?.file.stateDir ?? null;
  return { home, project, os, env, stateDir };
}

/** Options that find this agent's files, because a host starts svc without the variables of this shell. */
function hereWords(ctx: Context): string[] {
  const env: Context["env"] = (name) => name === "HOME" || name === "APPDATA" ? ctx.env(name) : undefined;
  const isUsual = ctx.configDir === usualConfigDir({ env, os: ctx.os });
  const { authority } = ctx;
  return [
    ...isUsual ? [] : ["--config-dir", ctx.configDir],
    ...authority === undefined || authority.isSaved ? [] : ["--ca", authority.path],
  ];
}

/** Creates the folder of a host in a project. @throws {CliError} `CLI_SAVE_FAILED` */
async function ensureProjectFolder(project: string, folder: string): Promise<void> {
  if (folder === project) return;
  try {
    await Deno.mkdir(folder, { mode: 0o755 });
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return;
    throw saveFailed(folder, "created", error);
  }
}

/** Records the platform `inbox` when nothing names a platform for the agent's messages. */
async function chooseInbox(ctx: Context, folder: AgentFolder): Promise<Messages> {
  const messages = messagesOf(ctx, folder);
  if (messages.platform !== "inbox" || runtimeSettings(folder) !== null) return messages;
  await chooseForHost(folder);
  return { platform: "inbox", isNew: true };
}

/** Returns where the messages go. Without `runtime.json`, the agent's framework may be a runtime that gets them. */
function messagesOf(ctx: Context, folder: AgentFolder): Messages {
  const file = runtimeSettings(folder)?.file ?? null;
  const target = runtimeTarget({ env: ctx.env, allowInsecure: true }, file, folder.identity().framework);
  return { platform: target?.platform ?? "inbox", isNew: false };
}
