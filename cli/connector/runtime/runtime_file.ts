/**
 * `runtime.json`: settings of the agent's runtime. Commands that choose a runtime write it, and `connector start`,
 * `doctor` and `relay-test` read it. The file of the configuration directory applies to every agent without its own,
 * because the runtime is usually there before the first agent.
 */
import * as z from "zod";
import type { AgentFolder } from "../../agents/agent_store.ts";
import type { Context } from "../../context.ts";
import { parseWord } from "../../command_line/numbers.ts";
import { CliError, nameAgentIn } from "../../errors.ts";
import { kindOf, type PrivateFolder } from "../../files/private_files.ts";
import {
  PLATFORM_IDS,
  type PlatformId,
  type PushPlatform,
  REPLIES,
  type Replies,
  type RuntimeSource,
  type RuntimeTarget,
} from "../../platforms/platform.ts";
import { PLATFORMS } from "../../platforms/table.ts";
import { parseHookPath, parseHookToken, parseRuntimeUrl } from "./runtime.ts";
import { join } from "node:path";
import { Database } from "../store/database.ts";

export const RUNTIME_FILE = "runtime.json";

/**
 * Options that name an address of the runtime, with their variables. The token is not one of them, because a token in
 * the environment is for every agent.
 */
export const ADDRESSES = {
  "runtime-base-url": "SVC_RUNTIME_BASE_URL",
  "openclaw-base-url": "OPENCLAW_BASE_URL",
  "hook-path": "SVC_HOOK_PATH",
} as const;

const RuntimeFile = z.object({
  platform: z.enum(PLATFORM_IDS),
  baseUrl: z.string().nullable().default(null),
  webhookHost: z.string().nullable().default(null),
  webhookPort: z.int().min(1).max(65_535).nullable().default(null),
  webhookToken: z.string().nullable().default(null),
  hookPath: z.string().nullable().default(null),
  connectorBaseUrl: z.string().nullable().default(null),
  stateDir: z.string().nullable().default(null),
  replies: z.enum(REPLIES).default("auto"),
  /** Whether contacts are refused in both directions. */
  strict: z.boolean().default(false),
  /**
   * `default`: no person has chosen the platform, so a choice for every agent counts more than this file. `host`:
   * `svc mcp install` has chosen it, and its `--undo` takes the choice back.
   */
  chosen: z.enum(["default", "host"]).optional(),
});
export type RuntimeFile = z.infer<typeof RuntimeFile>;

/** The settings of an agent: from its own file, else from the file for every agent; `null` without both. */
export function runtimeSettings(folder: AgentFolder): { file: RuntimeFile; source: "agent" | "install" } | null {
  const own = readRuntimeFileIn(folder);
  if (own !== null && own.chosen !== "default") return { file: own, source: "agent" };
  const shared = readRuntimeFileIn(folder.shared);
  return shared && { file: shared, source: "install" };
}

/** The settings in the file of this folder; `null` without a file. @throws {CliError} `CLI_FILE_INVALID` */
export function readRuntimeFileIn(folder: PrivateFolder): RuntimeFile | null {
  return folder.readJson(RUNTIME_FILE, RuntimeFile, { hint: "; remove it and svc install writes it again" });
}

/**
 * The settings that `connector start --save` stores: with the address and token in effect, so that the next start needs
 * no options. `target` is `null` for an agent that reads its own messages.
 */
export function withTarget(
  file: RuntimeFile | null,
  target: RuntimeTarget | null,
  wanted: { replies?: Replies | undefined; strict?: boolean | undefined },
): RuntimeFile {
  const strict = wanted.strict === true || file?.strict === true;
  if (target === null) return { ...emptyRuntimeFile("inbox"), strict };
  const { platform, baseUrl, hookPath, hookToken } = target;
  const kept = file ?? emptyRuntimeFile(platform);
  // A saved host or port would override the address, so neither is kept.
  const saved = { ...kept, platform, baseUrl, webhookHost: null, webhookPort: null, hookPath, webhookToken: hookToken };
  return { ...saved, replies: wanted.replies ?? kept.replies, strict, chosen: undefined };
}

/** Whether contacts are refused in both directions: by option, environment or `runtime.json`. */
export function isStrict(ctx: Pick<Context, "env">, file: RuntimeFile | null, wanted = false): boolean {
  return wanted || ctx.env("SVC_STRICT") === "1" || file?.strict === true;
}

export interface TargetOptions {
  "runtime-base-url"?: string | undefined;
  "openclaw-base-url"?: string | undefined;
  "hook-path"?: string | undefined;
  "hook-token"?: string | undefined;
  /** The agent reads its messages: platform `inbox`. */
  inbox?: boolean | undefined;
  /** Whether answers of the runtime go back to the senders: `auto`, `on` or `off`. */
  replies?: string | undefined;
}

/**
 * The address of the runtime: from option, environment, `runtime.json`, then the platform's default. `null` on the
 * platform `inbox`.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL`
 */
export function runtimeTarget(
  ctx: Pick<Context, "env" | "allowInsecure">,
  file: RuntimeFile | null,
  framework = "",
  options: TargetOptions = {},
  fileSource: "agent" | "install" = "agent",
): RuntimeTarget | null {
  const platform = platformOf(ctx.env, file, framework, options);
  if (platform === "inbox") return null;
  const { defaults } = PLATFORMS[platform];
  const [urlFrom, url] = firstGiven([
    ["--runtime-base-url", options["runtime-base-url"]],
    ["--openclaw-base-url", options["openclaw-base-url"]],
    ["SVC_RUNTIME_BASE_URL", ctx.env("SVC_RUNTIME_BASE_URL")],
    ["OPENCLAW_BASE_URL", file === null || platform === "openclaw" ? ctx.env("OPENCLAW_BASE_URL") : undefined],
    [RUNTIME_FILE, file === null ? undefined : fileUrl(file, defaults.baseUrl)],
  ], defaults.baseUrl);
  const [pathFrom, path] = firstGiven([
    ["--hook-path", options["hook-path"]],
    ["SVC_HOOK_PATH", ctx.env("SVC_HOOK_PATH")],
    [RUNTIME_FILE, file?.hookPath ?? undefined],
  ], defaults.hookPath);
  // If the command line does not give the option, it has the value of the environment already.
  const [tokenFrom, token] = firstGiven([
    ["--hook-token", options["hook-token"]],
    [RUNTIME_FILE, file?.webhookToken ?? undefined],
  ], "");
  return {
    platform,
    baseUrl: parseRuntimeUrl(url, urlFrom, ctx),
    hookPath: parseHookPath(path, pathFrom),
    hookToken: token === "" ? null : parseHookToken(token, tokenFrom),
    source: sourceOf(pathFrom, sourceOf(urlFrom, file === null ? "default" : fileSource)),
    replies: sendsReplies(PLATFORMS[platform], parseReplies(options.replies) ?? file?.replies ?? "auto"),
  };
}

/** @throws {CliError} `CLI_USAGE` */
export function parseReplies(text: string | undefined): Replies | undefined {
  return text === undefined ? undefined : parseWord(REPLIES, text, "--replies");
}

function sendsReplies({ name, replyOf, tasks, repliesByDefault }: PushPlatform, wanted: Replies): boolean {
  if (wanted !== "on") return wanted === "auto" && repliesByDefault;
  if (replyOf !== undefined || tasks !== undefined) return true;
  throw new CliError("CLI_USAGE", `--replies on is not possible: ${name} does not reply in its answer`);
}

function sourceOf(from: string, otherwise: RuntimeSource): RuntimeSource {
  if (from.startsWith("--")) return "option";
  return /^[A-Z]/.test(from) ? "environment" : otherwise;
}

/**
 * Chooses the platform of an agent. `--inbox` comes first, then the platform of `runtime.json`, or without that file
 * the agent's framework if it is a platform. If this gives no push platform, an address that was given chooses one:
 * `generic` for a base URL, so that an unknown runtime is not taken for OpenClaw; else OpenClaw. Without an address it
 * is `inbox`, because a default address belongs to the program that happens to listen there.
 */
function platformOf(
  env: Context["env"],
  file: RuntimeFile | null,
  framework: string,
  options: TargetOptions,
): PlatformId {
  const names = Object.keys(ADDRESSES) as (keyof typeof ADDRESSES)[];
  const address = names.find((name) => options[name] !== undefined);
  if (options.inbox) {
    if (address === undefined) return "inbox";
    throw new CliError("CLI_USAGE", `--inbox and --${address} exclude each other: with --inbox there is no runtime`);
  }
  const named = file?.platform ?? PLATFORM_IDS.find((id) => id === framework && id !== "generic") ?? "inbox";
  const isGiven = address !== undefined || names.some((name) => env(ADDRESSES[name]) !== undefined);
  if (named !== "inbox" || !isGiven) return named;
  const isElsewhere = (options["runtime-base-url"] ?? env("SVC_RUNTIME_BASE_URL")) !== undefined;
  return isElsewhere ? "generic" : "openclaw";
}

function fileUrl({ baseUrl, webhookHost, webhookPort }: RuntimeFile, usual: string): string | undefined {
  if (webhookHost === null && webhookPort === null) return baseUrl ?? undefined;
  const url = new URL(baseUrl ?? usual);
  const name = webhookHost ?? url.hostname;
  const host = name.includes(":") && !name.startsWith("[") ? `[${name}]` : name;
  return `${url.protocol}//${host}:${webhookPort ?? url.port}`;
}

function firstGiven(sources: [from: string, value: string | undefined][], otherwise: string): [string, string] {
  for (const [from, value] of sources) {
    if (value !== undefined && value !== "") return [from, value];
  }
  return ["the default", otherwise];
}

export function emptyRuntimeFile(platform: PlatformId): RuntimeFile {
  return RuntimeFile.parse({ platform });
}

/**
 * Asks before unread messages of an agent that read them itself go to a runtime, because they were kept for their
 * reader, and a runtime that has them cannot be made to give them back. Returns true when a person has agreed now.
 *
 * @throws {CliError} `CLI_PLATFORM_CHANGE` when the person declines or cannot be asked
 */
export async function confirmChange(
  ctx: Pick<Context, "confirm" | "out">,
  folder: AgentFolder,
  target: Pick<RuntimeTarget, "platform"> | null,
  isAgreed: boolean,
): Promise<boolean> {
  if (target === null || isAgreed || !hasReader(folder)) return false;
  const unread = await countUnread(folder);
  if (unread === 0) return false;
  const [messages, go] = unread === 1 ? ["message", "goes"] : ["messages", "go"];
  const what = `${unread} unread ${messages} of ${folder.name} ${go} to ${PLATFORMS[target.platform].name} now`;
  const canAsk = ctx.confirm !== null && !ctx.out.json;
  if (canAsk) ctx.out.finish();
  if (canAsk && await ctx.confirm?.(`${what}. Continue?`)) return true;
  const refused = new CliError("CLI_PLATFORM_CHANGE", what);
  nameAgentIn(refused, folder.name);
  throw refused;
}

/** Whether the messages on disk were kept for a reader: by the agent's own settings, else by those for every agent. */
export function hasReader(folder: AgentFolder): boolean {
  return (readRuntimeFileIn(folder) ?? readRuntimeFileIn(folder.shared))?.platform === "inbox";
}

/** Saves `inbox` as a default that no person chose, so that a later choice counts. Returns true when this is new. */
export async function rememberInbox(folder: AgentFolder): Promise<boolean> {
  if (folder.read(RUNTIME_FILE) !== null) return false;
  await folder.writeJson(RUNTIME_FILE, { ...emptyRuntimeFile("inbox"), chosen: "default" });
  return true;
}

/** Saves `inbox` as the choice of `svc mcp install`. */
export async function chooseForHost(folder: AgentFolder): Promise<void> {
  await folder.writeJson(RUNTIME_FILE, { ...emptyRuntimeFile("inbox"), chosen: "host" });
}

/** Takes the choice of `chooseForHost` back. It stays as a default when a connector may have stored messages. */
export async function undoForHost(folder: AgentFolder): Promise<void> {
  const file = readRuntimeFileIn(folder);
  if (file?.chosen !== "host") return;
  const isUsed = await kindOf(join(folder.path, "connector.db")) !== "none";
  if (isUsed) await folder.writeJson(RUNTIME_FILE, { ...file, chosen: "default" });
  else await folder.remove(RUNTIME_FILE);
}

/** Removes the default of `rememberInbox`, because a choice for every agent was made and agreed to. */
export async function forgetDefault(folder: AgentFolder): Promise<void> {
  if (readRuntimeFileIn(folder)?.chosen === "default") await folder.remove(RUNTIME_FILE);
}

/** Returns how many unread messages are on disk; no connector needs to run. @throws as `Database.open` */
export async function countUnread(folder: AgentFolder): Promise<number> {
  const path = join(folder.path, "connector.db");
  if (await kindOf(path) === "none") return 0;
  using database = Database.open(path);
  return Number(database.get("SELECT count(*) AS n FROM messages WHERE state = 'waiting'")?.n ?? 0);
}
