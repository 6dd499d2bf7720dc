/** `svc hook claude-code`: the hook that wakes Claude Code when a message arrives. */
import { command } from "../command_line/command.ts";
import { parseCount } from "../command_line/numbers.ts";
import { EXIT } from "../errors.ts";
import { onStop } from "../terminal/interrupt.ts";

/** Default and longest wait, in seconds: Claude Code ends a hook after an hour. */
const MAX_WAIT = 3_500;

/** The exit code with which a hook of Claude Code wakes the model; standard error is the text for it. */
const WAKE = 2;

export const COMMANDS = [
  command({
    path: ["hook", "claude-code"],
    summary: "Wait for a message, as a hook of Claude Code that wakes its model",
    details: [
      "svc mcp install --for claude-code --wake auto adds it to the hooks. Exits with 2 and one line on standard error when an",
      "unread message arrives, else with 0 and no output. It marks nothing read, and runs no connector.",
    ],
    args: {
      agent: {
        summary: "Agent name on this machine; optional if there is only one agent",
        optional: true,
        complete: "agents",
      },
    },
    options: {
      "unless-inbox": {
        summary: "Do nothing in a session with an inbox, through which svc mcp --wake-model wakes the model",
      },
      timeout: { value: "seconds", summary: `Longest wait, 1 to ${MAX_WAIT} (default ${MAX_WAIT})` },
    },
    examples: { "svc hook claude-code alpha": "Wait for messages of alpha; the input names the session" },
    async run(ctx, { args, options }) {
      const stopped = Promise.withResolvers<void>();
      const forget = onStop(ctx, () => stopped.resolve());
      try {
        const isLeft = options["unless-inbox"] && ctx.os !== "windows" &&
          ctx.env("CLAUDE_CODE_MESSAGING_SOCKET") !== undefined;
        if (isLeft) return EXIT.done;
        const { waitForMessages } = await import("../messages/wake_up.ts");
        const seconds = parseCount(options.timeout ?? `${MAX_WAIT}`, "--timeout", MAX_WAIT);
        const line = await Promise.race([waitForMessages(ctx, args.agent, seconds), stopped.promise]);
        if (typeof line !== "string") return EXIT.done;
        ctx.terminal.stderr(`${line}\n`);
        return WAKE;
      } catch {
        // A text and an exit code of an error would reach the model at the end of every turn.
        return EXIT.done;
      } finally {
        forget();
      }
    },
  }),
];
