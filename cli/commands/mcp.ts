/** `svc mcp`: the agent as tools for a program that runs a model. */
import { command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { CliError } from "../errors.ts";
import { onStop } from "../terminal/interrupt.ts";

export const COMMANDS = [
  command({
    path: ["mcp"],
    summary: "Serve an agent's messages as MCP tools on standard input and output",
    details: [
      "A program that runs a model starts this command and reads its output. Runs the agent's connector unless one runs.",
      "Sending and reading need no further approval here; pairing asks the person through that program.",
    ],
    args: { agent: { summary: "Agent name; optional if there is only one agent", optional: true, complete: "agents" } },
    options: {
      "read-only": { summary: "Offer only tools that change nothing: none sends, pairs or marks a message read" },
      peers: { value: "names", summary: "Show the model only these peers: aliases or DIDs, separated by commas" },
      channel: { summary: "Announce new messages to Claude Code as a channel (preview)" },
      "wake-model": {
        summary: "Wake the model when a message arrives: through the inbox of Claude Code, the queue of Codex",
      },
      "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
    },
    examples: {
      "svc mcp alpha": "What the configuration of such a program runs",
      "svc mcp alpha --peers beta --read-only": "Let a model only read what beta has written",
    },
    async run(ctx, { args: { agent }, options }) {
      const { serveMcp } = await import("../mcp/serve.ts");
      await serveMcp(ctx, {
        agent,
        isReadOnly: options["read-only"],
        only: options.peers === undefined ? null : peerNames(options.peers),
        isChannel: options.channel,
        isWaking: options["wake-model"],
        allowInsecure: options["allow-insecure"],
        onStop: (stop) => onStop(ctx, stop),
      });
    },
  }),
];

/** @throws {CliError} `CLI_USAGE` */
function peerNames(list: string): string[] {
  const names = list.split(",").map((name) => name.trim());
  const { sendersAtOnce } = CONNECTOR_LIMITS;
  if (names.length <= sendersAtOnce && names.every((name) => name !== "")) return names;
  throw new CliError("CLI_USAGE", `--peers takes 1 to ${sendersAtOnce} names, separated by commas`);
}
