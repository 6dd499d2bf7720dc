/** `svc completions`: prints shell completion scripts. */
import { type Command, command, type Groups } from "../command_line/command.ts";
import { CliError } from "../errors.ts";
import { didYouMean } from "../../shared/did_you_mean.ts";
import { completionScript, SHELLS } from "../command_line/completion_scripts.ts";

/** Returns the command. `commands` is called at run time, because that list contains this command. */
export const completionCommand = (commands: () => Promise<readonly Command[]>, groups: Groups): Command =>
  command({
    path: ["completions"],
    summary: "Print a completion script for your shell",
    args: { shell: { summary: `One of ${SHELLS.join(", ")}`, complete: SHELLS } },
    examples: {
      "svc completions bash >~/.local/share/bash-completion/completions/svc": "Install for bash; active in new shells",
      "svc completions zsh >>~/.zshrc": "Install for zsh",
      "svc completions fish >~/.config/fish/completions/svc.fish": "Install for fish",
    },
    async run(ctx, { args }) {
      const shell = SHELLS.find((known) => known === args.shell);
      if (shell === undefined) {
        throw new CliError("CLI_USAGE", `There is no completion for ${args.shell}.${didYouMean(args.shell, SHELLS)}`);
      }
      const script = completionScript(shell, await commands(), groups);
      ctx.out.result({ shell, script }, script.split("\n"));
    },
  });
