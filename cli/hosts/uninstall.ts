/**
 * What svc added to this machine outside of its own folder: services, entries in files of hosts, and completions. Each one is
 * removed by its own undo, so what another program or another folder of svc made stays.
 */
import { join } from "node:path";
import { AgentStore } from "../agents/agent_store.ts";
import { type Host, serviceFile, type ServiceSystem, uninstallService } from "../autostart/control.ts";
import { COMPLETION_START } from "../command_line/completion_scripts.ts";
import type { Context } from "../context.ts";
import { DEFAULT_PROFILE, profileFolders, profileOf } from "../files/profile.ts";
import { recordedEntries } from "./install.ts";

/** A thing that svc added to this machine. */
export interface Installed {
  kind: "service" | "entry" | "completion";
  path: string;
  /** What it is in that file. */
  what: string;
  /** Returns false when it is gone already. */
  remove(): Promise<boolean>;
}

interface Uninstall {
  installed: Installed[];
  /** Agents whose keys stay in the folder. */
  agents: string[];
  /** Agents whose records cannot be read, with the reason: what svc wrote for them is not known. */
  unread: { agent: string; error: unknown }[];
}

/** An agent whose keys stay, with the context of its profile. */
export interface KeptAgent {
  ctx: Context;
  name: string;
  /** Its name, behind that of its profile unless that is the default one. */
  shown: string;
}

/** Returns what every profile added. @param system the service manager; `null` where svc installs no service */
export async function findEverywhere(ctx: Context, host: Host, system: ServiceSystem | null) {
  const installed = new Map<string, Installed>(), kept: KeptAgent[] = [], unread: Uninstall["unread"] = [];
  for (const [profile, configDir] of profileFolders(ctx)) {
    const here = { ...ctx, configDir };
    const found = await findInstalled(here, host, system);
    // The completions are those of all profiles.
    for (const one of found.installed) installed.set(`${one.kind} ${one.path} ${one.what}`, one);
    unread.push(...found.unread);
    const shown = (name: string) => profile === DEFAULT_PROFILE ? name : `${profile}/${name}`;
    kept.push(...found.agents.map((name) => ({ ctx: here, name, shown: shown(name) })));
  }
  return { installed: [...installed.values()], kept, unread };
}

async function findInstalled(ctx: Context, host: Host, system: ServiceSystem | null): Promise<Uninstall> {
  const store = new AgentStore(ctx);
  const { agents } = await store.names();
  const installed: Installed[] = [], unread: Uninstall["unread"] = [];
  for (const agentName of system === null ? [] : [...agents, null]) {
    const service = { agentName, profile: profileOf(ctx) };
    const path = await serviceFile(host, system ?? "systemd", service, ctx.configDir);
    const remove = () => uninstallService(host, system ?? "systemd", service);
    if (path !== null) installed.push({ kind: "service", path, what: agentName ?? "all agents", remove });
  }
  for (const agent of agents) {
    try {
      const entries = recordedEntries(ctx, await store.open(agent));
      installed.push(
        ...entries.map(({ path, place, remove }) => ({ kind: "entry" as const, path, what: place, remove })),
      );
    } catch (error) {
      unread.push({ agent, error });
    }
  }
  for (const path of completionFiles(host)) {
    const text = await Deno.readTextFile(path).catch(() => "");
    const remove = () => Deno.remove(path).then(() => true, () => false);
    if (text.startsWith(COMPLETION_START)) installed.push({ kind: "completion", path, what: "svc", remove });
  }
  return { installed, agents, unread };
}

/** The files that `svc completions --help` names, as far as they hold nothing else. */
function completionFiles({ home, configHome }: Host): string[] {
  return [
    join(home, ".local", "share", "bash-completion", "completions", "svc"),
    join(configHome, "fish", "completions", "svc.fish"),
  ];
}

/** How a person removes the program itself. */
export function programRemoval(): string {
  if (Deno.build.standalone) return `rm ${Deno.execPath()}`;
  return Deno.mainModule.endsWith(".js") ? "npm uninstall --global @svc/svc" : "remove the project's folder";
}
