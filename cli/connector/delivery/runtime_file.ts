/**
 * `runtime.json` (D-93): what is known about the agent's runtime, set by `install` and `provider setup`, read by
 * `connector start`, `doctor` and `relay-test`. From it, the options and the environment follows where messages go. The
 * file of the configuration directory holds for every agent that has none of its own (D-227).
 */
import * as z from "zod";
import type { AgentFolder } from "../../agents/agent_store.ts";
import type { Context } from "../../context.ts";
import { CliError } from "../../errors.ts";
import type { PrivateFolder } from "../../files/private_folder.ts";
import { PLATFORM_IDS, type PlatformId, type RuntimeSource, type RuntimeTarget } from "../../platforms/platform.ts";
import { PLATFORMS } from "../../platforms/table.ts";
import { parseHookPath, parseHookToken, parseRuntimeUrl } from "./runtime.ts";

export const RUNTIME_FILE = "runtime.json";

const RuntimeFile = z.object({
  platform: z.enum(PLATFORM_IDS),
  baseUrl: z.string().nullable().default(null),
  webhookHost: z.string().nullable().default(null),
  webhookPort: z.int().min(1).max(65_535).nullable().default(null),
  webhookToken: z.string().nullable().default(null),
  hookPath: z.string().nullable().default(null),
  connectorBaseUrl: z.string().nullable().default(null),
  stateDir: z.string().nullable().default(null),
});
export type RuntimeFile = z.infer<typeof RuntimeFile>;

/** The settings that count for an agent: those of its own file, else of the file for every agent; `null` without both. */
export function runtimeSettings(folder: AgentFolder): { file: RuntimeFile; source: "agent" | "install" } | null {
  const own = readRuntimeFileIn(folder);
  if (own !== null) return { file: own, source: "agent" };
  const shared = readRuntimeFileIn(folder.shared);
  return shared && { file: shared, source: "install" };
}

/** What the file of this folder says; `null` when there is none. @throws {CliError} `CLI_FILE_INVALID` */
export function readRuntimeFileIn(folder: PrivateFolder): RuntimeFile | null {
  const text = folder.read(RUNTIME_FILE);
  if (text === null) return null;
  try {
    return RuntimeFile.parse(JSON.parse(text));
  } catch {
    throw new CliError(
      "CLI_FILE_INVALID",
      `${folder.path}/${RUNTIME_FILE} is damaged; remove it, svc install writes it again`,
    );
  }
}

/** The settings with the address and the token that are in effect now, as `connector start --save` keeps them (D-229). */
export function withTarget(file: RuntimeFile | null, target: RuntimeTarget): RuntimeFile {
  const { platform, baseUrl, hookPath, hookToken } = target;
  const kept = file ?? emptyRuntimeFile(platform);
  // Host and port would override the address.
  return { ...kept, platform, baseUrl, webhookHost: null, webhookPort: null, hookPath, webhookToken: hookToken };
}

/** Options of `connector start` that say where the runtime is. */
export interface TargetOptions {
  "runtime-base-url"?: string | undefined;
  "openclaw-base-url"?: string | undefined;
  "hook-path"?: string | undefined;
  "hook-token"?: string | undefined;
  "allow-insecure": boolean;
}

/** Where messages go: option, then environment, then `runtime.json`, then what the platform usually has (D-92). */
export function runtimeTarget(
  ctx: Pick<Context, "env">,
  file: RuntimeFile | null,
  framework: string,
  options: TargetOptions,
  fileSource: "agent" | "install" = "agent",
): RuntimeTarget {
  const platform = file?.platform ?? platformOf(ctx, framework, options);
  const { defaults } = PLATFORMS[platform];
  const [urlFrom, url] = firstGiven([
    ["--runtime-base-url", options["runtime-base-url"] ?? options["openclaw-base-url"]],
    ["SVC_RUNTIME_BASE_URL", ctx.env("SVC_RUNTIME_BASE_URL")],
    ["OPENCLAW_BASE_URL", isOpenClaw(file, platform) ? ctx.env("OPENCLAW_BASE_URL") : undefined],
    [RUNTIME_FILE, file === null ? undefined : fileUrl(file, defaults.baseUrl)],
  ], defaults.baseUrl);
  const [pathFrom, path] = firstGiven([
    ["--hook-path", options["hook-path"]],
    ["SVC_HOOK_PATH", ctx.env("SVC_HOOK_PATH")],
    [RUNTIME_FILE, file?.hookPath ?? undefined],
  ], defaults.hookPath);
  // The option has the environment's value already, where it was not given itself.
  const [tokenFrom, token] = firstGiven([
    ["--hook-token", options["hook-token"]],
    [RUNTIME_FILE, file?.webhookToken ?? undefined],
  ], "");
  return {
    platform,
    baseUrl: parseRuntimeUrl(url, urlFrom, options["allow-insecure"]),
    hookPath: parseHookPath(path, pathFrom),
    hookToken: token === "" ? null : parseHookToken(token, tokenFrom),
    source: sourceOf(urlFrom, file === null ? "default" : fileSource),
  };
}

function sourceOf(from: string, otherwise: RuntimeSource): RuntimeSource {
  if (from.startsWith("--")) return "option";
  return /^[A-Z]/.test(from) ? "environment" : otherwise;
}

/**
 * The platform of an agent without `runtime.json`: its framework, where that is one. Else OpenClaw, whose address the
 * default is, unless another address is given: a runtime must not get by accident what only another may safely have (D-100).
 */
function platformOf(ctx: Pick<Context, "env">, framework: string, options: TargetOptions): PlatformId {
  const named = PLATFORM_IDS.find((id) => id === framework && id !== "generic");
  if (named !== undefined) return named;
  const isElsewhere = (options["runtime-base-url"] ?? ctx.env("SVC_RUNTIME_BASE_URL")) !== undefined;
  return isElsewhere ? "generic" : "openclaw";
}

function isOpenClaw(file: RuntimeFile | null, platform: PlatformId): boolean {
  return file === null || platform === "openclaw";
}

function fileUrl({ baseUrl, webhookHost, webhookPort }: RuntimeFile, usual: string): string | undefined {
  if (webhookHost === null && webhookPort === null) return baseUrl ?? undefined;
  const url = new URL(baseUrl ?? usual);
  const host = webhookHost ?? url.hostname;
  return `${url.protocol}//${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${
    webhookPort ?? url.port
  }`;
}

function firstGiven(sources: [from: string, value: string | undefined][], otherwise: string): [string, string] {
  for (const [from, value] of sources) {
    if (value !== undefined && value !== "") return [from, value];
  }
  return ["the default", otherwise];
}

/** A file in which only the platform is known. */
export function emptyRuntimeFile(platform: PlatformId): RuntimeFile {
  return RuntimeFile.parse({ platform });
}
