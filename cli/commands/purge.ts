/** Deletes the configuration folder, after each agent could be revoked and a person has typed what is deleted. */
import { join } from "node:path";
import { connectAsPerson } from "../account/registry_access.ts";
import { findAgent } from "../agents/agent_reference.ts";
import { AgentStore } from "../agents/agent_store.ts";
import { deleteAgent } from "../agents/lifecycle.ts";
import { connectorOf } from "../connector/attach.ts";
import type { Context } from "../context.ts";
import { CliError, describe } from "../errors.ts";
import type { KeptAgent } from "../hosts/uninstall.ts";
import { reason } from "../files/private_files.ts";
import { profileFolders } from "../files/profile.ts";

/** What svc writes into a configuration folder, which may hold files of others: `--config-dir` can be any folder. */
const OWN: ReadonlySet<string> = new Set([
  ...["agents", "keys", "config.json", "profile.json", "ca.pem", "runtime.json", "version-notice.json", "open.html"],
  ...["connector.log", "hosts.lock", ".config.lock", ".config.probe"],
]);

/** @throws {CliError} `CLI_USAGE` where no person can be asked, or while a connector runs */
export async function checkPurge({ ask, confirm, out }: Context, agents: readonly KeptAgent[]): Promise<void> {
  if (ask === undefined || ask === null || confirm === null || out.json) {
    throw new CliError("CLI_USAGE", "--purge deletes keys, so it asks on a terminal", {
      fix: "Run it there, without --json.",
    });
  }
  for (const { ctx, name, shown } of agents) {
    const folder = await new AgentStore(ctx).open(name).catch(() => null);
    if (folder === null || await connectorOf(ctx, folder).catch(() => null) === null) continue;
    throw new CliError("CLI_USAGE", `The connector of ${shown} runs and would write its files again`, {
      fix: "Stop it first.",
    });
  }
}

/** Offers to revoke each agent, asks, and deletes. Returns the paths that are left; `null` when the person declined. */
export async function purge(ctx: Context, agents: readonly KeptAgent[]): Promise<string[] | null> {
  for (const agent of agents) await offerRevocation(agent);
  const wanted = ["delete", ...agents.length === 0 ? ["everything"] : agents.map(({ shown }) => shown)].join(" ");
  ctx.out.finish();
  const typed = await ctx.ask?.(
    `This deletes ${ctx.baseDir}. Its keys cannot be made again. To do it, type ${wanted}: `,
  );
  if (typed?.trim() !== wanted) return null;
  const left: string[] = [];
  // The default profile comes first in the list; its folder holds the others.
  for (const folder of [...profileFolders(ctx).values()].reverse()) left.push(...await removeOwn(folder));
  return left;
}

/** An identity without a key can be used by no person, and ended only by its owner or an admin. */
async function offerRevocation({ ctx, name, shown }: KeptAgent): Promise<void> {
  ctx.out.finish();
  if (
    await ctx.confirm?.(`Revoke ${shown} permanently first, so that no identity is left without its key?`, true) !==
      true
  ) return;
  try {
    const owner = connectAsPerson(ctx, { "allow-insecure": false });
    await deleteAgent(ctx, owner, await findAgent(ctx, name));
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
    const isOwn = OWN.has(name) || isLeftover(name);
    try {
      if (isOwn) await Deno.remove(path, { recursive: true });
      // Only when it is empty: each profile is deleted by itself.
      else if (name === "profiles") await Deno.remove(path);
      else left.push(path);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) left.push(`${path} (${reason(error)})`);
    }
  }
  if (left.length === 0) await Deno.remove(folder).catch(() => {});
  return [...new Set(left)];
}

/** A file of a write that was cut off. */
const isLeftover = (name: string): boolean => name.startsWith(".svc-") && name.endsWith(".tmp");
