/** `svc admin open`: the operator's console in a browser, without an API key in it. */
import { connectAsAdmin } from "../../account/registry_access.ts";
import { command, PERSON_OPTIONS } from "../../command_line/command.ts";

export const COMMANDS = [
  command({
    path: ["admin", "open"],
    summary: "Open the console in a browser: people, agents, messages, refusals",
    details: ["The server must run with svc serve --console, or CONSOLE=on. The address works once, for one minute."],
    options: {
      ...PERSON_OPTIONS,
      print: { summary: "Print the address and its QR code instead of opening a browser" },
    },
    examples: {
      "svc admin open": "See what passes and who is refused",
      "svc admin open --print": "Open the console on a phone",
    },
    async run(ctx, { options }) {
      const admin = connectAsAdmin(ctx, options);
      const code = await admin.consoleCode();
      const [{ openPage, pageLines }, { PrivateFolder }] = await Promise.all([
        import("../../files/open_page.ts"),
        import("../../files/private_folder.ts"),
      ]);
      if (ctx.out.json) return ctx.out.result(code, []);
      if (!options.print) {
        const { ensureConfigDir } = await import("../../files/config_dir.ts");
        await ensureConfigDir(ctx);
        return ctx.out.result(code, await openPage(ctx, new PrivateFolder(ctx, ctx.configDir), code));
      }
      const { renderUnicodeCompact } = await import("uqr");
      ctx.out.result(code, [...pageLines(code), ...renderUnicodeCompact(code.url, { border: 1 }).split("\n")]);
    },
  }),
];
