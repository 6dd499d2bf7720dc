/**
 * `svc uninstall`: removes what svc added to this machine outside of its own folder: services, settings of runtimes,
 * entries in files of hosts, and completions. Each one is removed by its own undo, so what another program or another
 * folder of svc made stays.
 */
import { join } from "node:path";
import { describeError } from "../../shared/client/refusals.ts";
import { connectAsPerson } from "../account/registry_access.ts";
import { type AgentFolder, AgentStore, findAgent } from "../agents/agent_store.ts";
import { deleteAgent } from "../agents/lifecycle.ts";
import { agentsWithService, chooseSystem, type Host, Service, thisHost } from "../autostart/control.ts";
import { command } from "../command_line/command.ts";
import { connectorOf } from "../connector/attach.ts";
import type { Context } from "../context.ts";
import { CliError, describe, EXIT } from "../errors.ts";
import { PrivateFolder, reason, removeFile } from "../files/private_files.ts";
import { profileFolders, profileOf } from "../files/profile.ts";
import { DEFAULT_PROFILE } from "../../shared/client/user_folder.ts";
import { recordedEntries } from "../hosts/install.ts";
import { changedFiles, undoChanges } from "../platforms/setup.ts";
import { shellWord } from "../terminal/output.ts";
import { table } from "../terminal/tables.ts";
import { COMPLETION_START } from "./completions.ts";
import { isConfirmed, YES } from "./confirm.ts";

export const COMMANDS = [
  command({
    path: ["uninstall"],
    summary: "Remove what svc wrote: services, settings, host entries, completions",
    details: [
      "It lists them, asks once, and removes each by its own undo: what was changed since by another program stays. Safe to",
      "run again, and over all profiles. The folder with the keys of your agents stays, because they cannot be made again;",
      "--purge deletes it too, after you have typed the names of the agents.",
    ],
    options: {
      print: { summary: "Show what would be removed, and remove nothing" },
      yes: YES,
      purge: { summary: "Delete the folder with accounts and keys too, on a terminal only" },
    },
    examples: { "svc uninstall --print": "Show what svc added to this machine" },
    async run(ctx, { options }) {
      const { installed, kept: keptAgents, unread } = await findEverywhere(ctx);
      const agents = keptAgents.map(({ shown }) => shown);
      const deletes = options.purge && !options.print;
      if (deletes) await checkPurge(ctx, keptAgents);
      for (const { agent, error } of unread) ctx.out.warn(`What svc wrote for ${agent}: ${describeError(error)}`);
      const listed = installed.map(shown);
      // Whole also on a narrow terminal, because a person who is asked must see which files change.
      const rows = listed.map(({ kind, what, path }) => [kind, what, path]);
      const lines = rows.length === 0 ? ["There is nothing to remove."] : table(["WHAT", "NAME", "FILE"], rows);
      const inZsh = await zshNote(thisHost(ctx));
      const kept = [
        agents.length === 0
          ? `Kept: ${ctx.baseDir}.`
          : `Kept: ${ctx.baseDir} with the keys of ${agents.join(", ")}. They cannot be made again.`,
        `To delete it too: ${ctx.out.commandLine(["uninstall", "--purge"])}`,
      ];
      if (options.print) {
        return ctx.out.result({ installed: listed, agents, folder: ctx.baseDir }, [...lines, "", ...kept, ...inZsh]);
      }
      if (installed.length > 0) { for (const line of lines) ctx.out.note(line); }
      if (installed.length > 0 && !await isConfirmed(ctx, options.yes, "Remove all of this?")) return EXIT.failed;
      const { removed, failed } = await removeAll(ctx, installed);
      const isWhole = failed.length + unread.length === 0;
      // The records in the folder say how to undo a change, so the folder stays while any change is not undone.
      const left = isWhole && deletes ? await purge(ctx, keptAgents) : null;
      const ends = left === null
        ? kept
        : left.length === 0
        ? [`Deleted: ${ctx.baseDir}.`]
        : ["Deleted, but for:", ...left];
      ctx.out.result({ removed: removed.map(shown), failed: failed.map(shown), agents, folder: ctx.baseDir }, [
        ...installed.length === 0 ? lines : [`Removed: ${removed.length} of ${installed.length}.`],
        ...ends,
        ...inZsh,
        `To remove the program itself: ${programRemoval()}`,
      ]);
      return isWhole && (!deletes || left?.length === 0) ? EXIT.done : EXIT.failed;
    },
  }),
];

interface Installed {
  kind: "service" | "settings" | "entry" | "completion";
  path: string;
  what: string;
  /** Returns false when there is nothing left to remove. */
  remove(): Promise<boolean>;
}

function shown({ kind, path, what }: Installed) {
  return { kind, path, what };
}

/** Removes everything in the list, and warns of what could not be removed. */
async function removeAll(ctx: Context, installed: readonly Installed[]) {
  const removed: Installed[] = [];
  let failed: (Installed & { error?: CliError })[] = [...installed];
  // Tried twice, because a file may hold an entry and settings, which must be undone in the reverse order of writing.
  for (let round = 1; round <= 2; round++) {
    const tried = failed;
    failed = [];
    for (const one of tried) {
      try {
        if (await one.remove()) removed.push(one);
      } catch (error) {
        if (!(error instanceof CliError)) throw error;
        failed.push({ ...one, error });
      }
    }
  }
  for (const { path, error } of failed) ctx.out.warn(`${path} is not changed: ${error?.message}`);
  return { removed, failed };
}

/** An agent whose keys stay, with the context of its profile. */
interface KeptAgent {
  ctx: Context;
  name: string;
  /** Its name, after that of its profile if this is not the default one. */
  shown: string;
}

/** What svc wrote for one agent outside of its folder. @throws {CliError} when its records cannot be read */
function writtenFor(ctx: Context, agent: AgentFolder): Installed[] {
  const settings = settingsOf(ctx, agent, agent.name);
  const entries = recordedEntries(ctx, agent);
  return [
    ...settings,
    ...entries.map(({ path, place: what, remove }) => ({ kind: "entry", path, what, remove } as const)),
  ];
}

function settingsOf(ctx: Context, folder: PrivateFolder, what: string): Installed[] {
  const path = changedFiles(folder).join(", ");
  const remove = async () => (await undoChanges(ctx, folder)).length > 0;
  return path === "" ? [] : [{ kind: "settings", path, what, remove }];
}

async function servicesOf(ctx: Context, host: Host, agents: readonly (string | null)[]): Promise<Installed[]> {
  // On other systems svc installs no service.
  if (ctx.os !== "darwin" && ctx.os !== "linux") return [];
  const system = chooseSystem("auto", ctx.os), profile = profileOf(ctx), installed: Installed[] = [];
  for (const agentName of new Set([...agents, ...await agentsWithService(host, system, profile)])) {
    const service = new Service(host, system, agentName, profile);
    const remove = () => service.uninstall((text) => ctx.out.warn(text));
    if (!await service.isOf(ctx.configDir)) continue;
    installed.push({ kind: "service", path: service.path, what: agentName ?? "all agents", remove });
  }
  return installed;
}

/**
 * Removes what svc wrote for an agent outside of its folder, and returns the changed files. Called before the folder is
 * deleted, because the records in it say what to undo. A host would otherwise go on to start a program that fails, and
 * a service would start again and again.
 */
export async function removeOfAgent(ctx: Context, agent: AgentFolder): Promise<string[]> {
  try {
    // Without a home directory there is no service.
    const services = ctx.env("HOME") === undefined ? [] : await servicesOf(ctx, thisHost(ctx), [agent.name]);
    const installed = [...services.filter(({ what }) => what === agent.name), ...writtenFor(ctx, agent)];
    return (await removeAll(ctx, installed)).removed.map(({ path }) => path);
  } catch (error) {
    // Only a warning, because the agent is revoked already, and its keys must still be deleted.
    if (!(error instanceof CliError)) throw error;
    ctx.out.warn(`What svc wrote into files of others may be there still: ${error.message}`);
    return [];
  }
}

/**
 * Returns what every profile added. `unread`: agents for which this is not known, because their records cannot be read.
 */
async function findEverywhere(ctx: Context) {
  const host = thisHost(ctx);
  const installed: Installed[] = [], kept: KeptAgent[] = [], unread: { agent: string; error: unknown }[] = [];
  for (const [profile, configDir] of profileFolders(ctx)) {
    const here = { ...ctx, configDir }, store = new AgentStore(here);
    const { agents } = await store.names();
    const shown = (name: string) => profile === DEFAULT_PROFILE ? name : `${profile}/${name}`;
    kept.push(...agents.map((name) => ({ ctx: here, name, shown: shown(name) })));
    installed.push(...await servicesOf(here, host, [...agents, null]));
    for (const agent of [null, ...agents]) {
      try {
        installed.push(
          ...agent === null
            ? settingsOf(here, new PrivateFolder(here, configDir), "all agents")
            : writtenFor(here, await store.open(agent)),
        );
      } catch (error) {
        unread.push({ agent: agent ?? "all agents", error });
      }
    }
  }
  // The completion files that `svc completions --help` names. One that begins in another way is the person's and stays.
  const completions = [
    join(host.home, ".local", "share", "bash-completion", "completions", "svc"),
    join(host.configHome, "fish", "completions", "svc.fish"),
  ];
  for (const path of completions) {
    const text = await Deno.readTextFile(path).catch(() => "");
    const remove = () => removeFile(path).then(() => true);
    if (text.startsWith(COMPLETION_START)) installed.push({ kind: "completion", path, what: "svc", remove });
  }
  return { installed, kept, unread };
}

/** Tells that the completion for zsh stays, because only the person can take it out of a file of their own. */
async function zshNote({ home }: Host): Promise<string[]> {
  const path = join(home, ".zshrc"), text = await Deno.readTextFile(path).catch(() => "");
  return text.includes(COMPLETION_START) ? [`The completion in ${path} stays: delete it there.`] : [];
}

function programRemoval(): string {
  if (Deno.build.standalone) return `rm ${shellWord(Deno.execPath())}`;
  return Deno.mainModule.endsWith(".js") ? "npm uninstall --global @svc/svc" : "remove the project's folder";
}

/** What svc writes into a configuration folder. The folder may hold other files, because `--config-dir` can be any. */
const OWN: ReadonlySet<string> = new Set([
  ...["agents", "keys", "config.json", "profile.json", "ca.pem", "runtime.json", "version-notice.json", "open.html"],
  ...["connector.log", "hosts.lock", ".account.lock", ".config.lock", ".config.probe", ".redemption.secret"],
]);

/** @throws {CliError} `CLI_USAGE` where no person can be asked, or while a connector runs */
async function checkPurge({ ask, confirm, out }: Context, agents: readonly KeptAgent[]): Promise<void> {
  if (ask === undefined || ask === null || confirm === null || out.json) {
    const fix = "Run it there, without --json.";
    throw new CliError("CLI_USAGE", "--purge deletes keys, so it asks on a terminal", { fix });
  }
  for (const { ctx, name, shown } of agents) {
    const folder = await new AgentStore(ctx).open(name).catch(() => null);
    if (folder === null || await connectorOf(ctx, folder).catch(() => null) === null) continue;
    const fix = "Stop it first.";
    throw new CliError("CLI_USAGE", `The connector of ${shown} runs and would write its files again`, { fix });
  }
}

/** Offers to revoke each agent, asks, and deletes. Returns the paths that are left; `null` when the person declined. */
async function purge(ctx: Context, agents: readonly KeptAgent[]): Promise<string[] | null> {
  for (const agent of agents) await offerRevocation(agent);
  const wanted = ["delete", ...agents.length === 0 ? ["everything"] : agents.map(({ shown }) => shown)].join(" ");
  ctx.out.finish();
  const typed = await ctx.ask?.(
    `This deletes ${ctx.baseDir}. Its keys cannot be made again. To do it, type ${wanted}: `,
  );
  if (typed?.trim() !== wanted) return null;
  const left: string[] = [];
  // The default profile comes last, because its folder holds the others and is removed only when it is empty.
  for (const folder of [...profileFolders(ctx).values()].reverse()) left.push(...await removeOwn(folder));
  return left;
}

/** Offers to revoke the agent, because without its key only its owner's account or an admin can end its identity. */
async function offerRevocation({ ctx, name, shown }: KeptAgent): Promise<void> {
  ctx.out.finish();
  const question = `Revoke ${shown} permanently first, so that no identity is left without its key?`;
  if (await ctx.confirm?.(question, true) !== true) return;
  try {
    const owner = connectAsPerson(ctx);
    await deleteAgent(ctx, owner, await findAgent(ctx, name, () => owner.registry.ownAgents(owner.apiKey)));
    ctx.out.note(`${shown} is revoked.`);
  } catch (error) {
    ctx.out.warn(`${shown} is not revoked: ${describe(error).cause}`);
  }
}

/** Removes what svc wrote into the folder, and the folder when it is empty then. Returns what is left. */
async function removeOwn(folder: string): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name).catch(() => []);
  const left: string[] = [];
  for (const name of [...names, "profiles"]) {
    const path = join(folder, name);
    const isLeftover = name.startsWith(".svc-") && name.endsWith(".tmp");
    try {
      if (OWN.has(name) || isLeftover) await Deno.remove(path, { recursive: true });
      // Removed only when it is empty, because each profile in it is deleted by itself.
      else if (name === "profiles") await Deno.remove(path);
      else left.push(path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) left.push(`${path} (${reason(error)})`);
    }
  }
  if (left.length === 0) await Deno.remove(folder).catch(() => {});
  return [...new Set(left)];
}
