/** `svc uninstall`: removes what svc added to this machine outside of its own folder. */
import { command } from "../command_line/command.ts";
import { CliError, EXIT } from "../errors.ts";
import { isConfirmed } from "./admin/pages.ts";

export const COMMANDS = [
  command({
    path: ["uninstall"],
    summary: "Remove the services, host entries and completions that svc wrote",
    details: [
      "It lists them, asks once, and removes each by its own undo: what was changed since by another program stays. Safe to",
      "run again, and over all profiles. The folder with the keys of your agents stays, because they cannot be made again;",
      "--purge deletes it too, after you have typed the names of the agents.",
    ],
    options: {
      print: { summary: "Show what would be removed, and remove nothing" },
      yes: { summary: "Do not ask for confirmation" },
      purge: { summary: "Delete the folder with accounts and keys too, on a terminal only" },
    },
    examples: { "svc uninstall --print": "Show what svc added to this machine" },
    async run(ctx, { options }) {
      const [{ findEverywhere, programRemoval }, { chooseSystem }, { thisHost }, { describeError }] = await Promise.all(
        [
          import("../hosts/uninstall.ts"),
          import("../autostart/control.ts"),
          import("../autostart/this_host.ts"),
          import("../../shared/client/refusals.ts"),
        ],
      );
      const system = ctx.os === "darwin" || ctx.os === "linux" ? chooseSystem("auto", ctx.os) : null;
      const { installed, kept: keptAgents, unread } = await findEverywhere(ctx, thisHost(ctx), system);
      const agents = keptAgents.map(({ shown }) => shown);
      const deletion = options.purge && !options.print ? await import("./purge.ts") : null;
      await deletion?.checkPurge(ctx, keptAgents);
      for (const { agent, error } of unread) ctx.out.warn(`What svc wrote for ${agent}: ${describeError(error)}`);
      const listed = installed.map(({ kind, path, what }) => ({ kind, path, what }));
      const lines = listed.length === 0 ? ["There is nothing to remove."] : ctx.out.table([
        { head: "WHAT", of: ({ kind }) => kind },
        { head: "FILE", rank: 1, of: ({ path }) => path },
        { head: "NAME", of: ({ what }) => what },
      ], listed);
      const kept = agents.length === 0
        ? `Kept: ${ctx.baseDir}.`
        : `Kept: ${ctx.baseDir} with the keys of ${agents.join(", ")}. They cannot be made again.`;
      if (options.print) {
        return ctx.out.result({ installed: listed, agents, folder: ctx.baseDir }, [...lines, "", kept]);
      }
      if (installed.length > 0) { for (const line of lines) ctx.out.note(line); }
      if (installed.length > 0 && !await isConfirmed(ctx, options.yes, "Remove all of this?")) return EXIT.failed;
      const removed: typeof listed = [], failed: typeof listed = [];
      for (const [i, { remove }] of installed.entries()) {
        const one = listed[i];
        if (one === undefined) continue;
        try {
          if (await remove()) removed.push(one);
        } catch (error) {
          if (!(error instanceof CliError)) throw error;
          failed.push(one);
          ctx.out.warn(`${one.path} is not changed: ${error.message}`);
        }
      }
      const isWhole = failed.length + unread.length === 0;
      // The records in the folder say how to undo a change, so they stay as long as one is not undone.
      const left = isWhole && deletion !== null ? await deletion.purge(ctx, keptAgents) : null;
      const ends = left === null
        ? [kept]
        : left.length === 0
        ? [`Deleted: ${ctx.baseDir}.`]
        : ["Deleted, but for:", ...left];
      ctx.out.result({ removed, failed, agents, folder: ctx.baseDir }, [
        ...installed.length === 0 ? lines : [`Removed: ${removed.length} of ${installed.length}.`],
        ...ends,
        `To remove the program itself: ${programRemoval()}`,
      ]);
      return isWhole && (deletion === null || left?.length === 0) ? EXIT.done : EXIT.failed;
    },
  }),
];
