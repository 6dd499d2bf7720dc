/** The live line of a connector in a real terminal: one line at any width. Needs tmux. */
import { assert } from "@std/assert";
import { shellWord } from "../../cli/terminal/output.ts";
import { createAgents } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { Service } from "../support/process.ts";
import { HAS_TMUX, TmuxTerminal } from "../support/tmux_terminal.ts";

const LIVE = /^b · (?:connecting|online|offline)/;

Deno.test({
  name: "the live line stays one line, in terminals of 40 and 80 columns",
  ignore: !HAS_TMUX,
  async fn() {
    const program = await bundledProgram();
    await using service = await Service.here();
    const dir = service.home;
    await createAgents(dir, service, ["b"]);
    const args = [
      "connector",
      "start",
      "b",
      "--config-dir",
      dir,
      "--runtime-base-url",
      "http://127.0.0.1:9",
      "--proxy-ws-url",
      "ws://127.0.0.1:9",
    ];
    const command = [program.command, ...program.args, ...args].map(shellWord).join(" ");
    for (const columns of [40, 80]) {
      await using terminal = await TmuxTerminal.run(columns, `NO_COLOR=1 LANG=C.UTF-8 ${command}`);
      const drawn = new Set<string>();
      // Different states of the line were drawn in the same place.
      await terminal.seen("the line is drawn again", (lines) => {
        const live = lines.filter((line) => LIVE.test(line));
        assert(live.length <= 1, live.join("\n"));
        for (const line of live) {
          // A screen that is looked at between two writes has no live line, but never one with something below it.
          assert(line === lines.at(-1) && [...line].length < columns, lines.join("\n"));
          drawn.add(line);
        }
        return drawn.size >= 2 || undefined;
      });
    }
  },
});
