/**
 * The command table: all commands in the order of help and docs/cli.md. A command line loads only the files of its
 * first word, because it would otherwise wait for the modules of all other commands.
 */
import type { Command, Groups } from "../command_line/command.ts";

export const GROUPS: Groups = {
  serve: "Run the server: registry and proxy.",
  demo: "See two agents exchange a message on this machine.",
  store: "Inspect, export or import a store, or regain access. Stop its server first, because it holds the file.",
  health: "Ask a server whether it is ready.",
  admin: "Administration: bootstrap, console, overview, people, agents, relay, services, keys, audit log.",
  "admin people": "The people of a registry: list, show, suspend, restore.",
  "admin agents": "The agents of all people: list, show, revoke, end a session.",
  "admin relay": "What the proxy reports: queues, deliveries, refusals.",
  "admin service": "Credentials of internal services, such as the proxy.",
  "admin keys": "The keys that sign identity tokens and revocation lists.",
  config: "Local configuration: registry URL, proxy URL, API key.",
  profile: "Accounts side by side, and what each of them trusts.",
  invite: "Create, list, revoke and redeem invites.",
  join: "Join a registry with the link of an invite.",
  agent: "Create, list, inspect and revoke agents.",
  "agent auth": "Access and refresh tokens of an agent.",
  "api-key": "Create, list and revoke your API keys.",
  whoami: "The person whose API key is configured.",
  status: "Registry, proxy, person and agents at a glance.",
  peers: "The agents that an agent is paired with.",
  send: "Send a message to a peer.",
  reply: "Reply to a message of the inbox.",
  inbox: "Messages that an agent has received.",
  sent: "Messages that an agent has sent.",
  log: "What was written with peers, in order.",
  hook: "Wake a coding agent when a message arrives.",
  connector: "Run an agent's connector and show its status.",
  "connector service": "Run the connector as a systemd or launchd service.",
  a2a: "Local addresses at which A2A clients reach a peer.",
  "dead-letters": "Messages that a connector gave up on.",
  mcp: "Serve an agent to programs that run a model.",
  install: "Detect or select the agent runtime.",
  provider: "Configure, check and test an agent's runtime.",
  verify: "Verify identity tokens and signed requests.",
  receipt: "Verify signed receipts.",
  explain: "Explain error codes.",
  uninstall: "Remove what svc wrote outside of its own folder.",
  completions: "Shell completion.",
};

/** The files of commands, each with the first words of its commands. */
const FILES: readonly (readonly [words: string, load: () => Promise<{ COMMANDS: readonly Command[] }>])[] = [
  ["serve demo store health", () => import("./server.ts")],
  ["admin", () => import("./admin/admin.ts")],
  ["admin", () => import("./admin/people.ts")],
  ["admin", () => import("./admin/agents.ts")],
  ["admin", () => import("./admin/relay.ts")],
  ["admin", () => import("./admin/overview.ts")],
  ["admin", () => import("./admin/audit.ts")],
  ["config", () => import("./config.ts")],
  ["profile", () => import("./profile.ts")],
  ["invite", () => import("./invite.ts")],
  ["join", () => import("./join.ts")],
  ["agent", () => import("./agent.ts")],
  ["api-key", () => import("./api_key.ts")],
  ["whoami status", () => import("./status.ts")],
  ["peers", () => import("./peers.ts")],
  ["send reply", () => import("./send.ts")],
  ["inbox", () => import("./inbox.ts")],
  ["sent", () => import("./sent.ts")],
  ["log", () => import("./log.ts")],
  ["mcp", () => import("./mcp.ts")],
  ["hook", () => import("./hook.ts")],
  ["connector", () => import("./connector/connector.ts")],
  ["connector", () => import("./connector/connector_service.ts")],
  ["a2a", () => import("./a2a.ts")],
  ["dead-letters", () => import("./dead_letters.ts")],
  ["install provider", () => import("./provider/provider_setup.ts")],
  ["provider", () => import("./provider/provider.ts")],
  ["verify receipt", () => import("./verify.ts")],
  ["explain", () => import("./explain.ts")],
  ["uninstall", () => import("./uninstall.ts")],
  ["completions", async () => {
    const { completionCommand } = await import("./completions.ts");
    return { COMMANDS: [completionCommand(allCommands, GROUPS)] };
  }],
];

async function loaded(files: typeof FILES): Promise<readonly Command[]> {
  return (await Promise.all(files.map(([, load]) => load()))).flatMap(({ COMMANDS }) => COMMANDS);
}

export const allCommands = () => loaded(FILES);

/** Returns the commands that a command line can mean: those of its first word, or all if no command has that word. */
export async function commandsOf(argv: readonly string[]): Promise<readonly Command[]> {
  if (argv.includes("--version") && argv.every((word) => word.startsWith("-"))) return [];
  const [first = ""] = argv[0] === "help" ? argv.slice(1) : argv;
  const files = FILES.filter(([words]) => words.split(" ").includes(first));
  return await loaded(files.length > 0 ? files : FILES);
}
