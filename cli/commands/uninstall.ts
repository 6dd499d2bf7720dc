/** `svc uninstall`: removes what svc added to this machine outside of its own folder. */
import { command } from "../command_line/command.ts";
import { CliError, EXIT } from "../errors.ts";
import { isConfirmed } from "./admin/pages.ts";

export const UNINSTALL_COMMANDS = [
  command({
    path: ["uninstall"],
    summary: "Remove the services, host entries and completions that svc wrote",
    details: [
      "It lists them, asks once, and removes each by its own undo: what was changed since by another program stays. Safe to",
      "run again. The folder with the keys of your agents stays, because they cannot be made again.",
    ],
    args: {},
    options: {
      print: { summary: "Show what would be removed, and remove nothing" },
      yes: { summary: "Do not ask for confirmation" },
    },
    examples: [{ run: "svc uninstall --print", purpose: "Show what svc added to this machine" }],
    async run(ctx, { options }) {
      const [{ findInstalled, programRemoval }, { chooseSystem }, { thisHost }, { describeError }] = await Promise.all([
        import("../hosts/uninstall.ts"),
        import("../autostart/control.ts"),
        import("../autostart/this_host.ts"),
        import("../../shared/client/refusals.ts"),
      ]);
      const system = ctx.os === "darwin" || ctx.os === "linux" ? chooseSystem("auto", ctx.os) : null;
      const { installed, agents, unread } = await findInstalled(ctx, thisHost(ctx), system);
      for (const { agent, error } of unread) ctx.out.warn(`What svc wrote for ${agent}: ${describeError(error)}`);
      const listed = installed.map(({ kind, path, what }) => ({ kind, path, what }));
      const lines = listed.length === 0 ? ["There is nothing to remove."] : ctx.out.table([
        { head: "WHAT", of: ({ kind }) => kind },
        { head: "FILE", rank: 1, of: ({ path }) => path },
        { head: "NAME", of: ({ what }) => what },
      ], listed);
      const kept = agents.length === 0
        ? `Kept: ${ctx.configDir}.`
        : `Kept: ${ctx.configDir} with the keys of ${agents.join(", ")}. They cannot be made again.`;
      if (options.print) {
        return ctx.out.result({ installed: listed, agents, folder: ctx.configDir }, [...lines, "", kept]);
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
      ctx.out.result({ removed, failed, agents, folder: ctx.configDir }, [
        ...installed.length === 0 ? lines : [`Removed: ${removed.length} of ${installed.length}.`],
        kept,
        `To remove the program itself: ${programRemoval()}`,
      ]);
      return failed.length + unread.length > 0 ? EXIT.failed : EXIT.done;
    },
  }),
];
