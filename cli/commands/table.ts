/**
 * The command table: all commands in the order of help and docs/cli.md. The file of each group defines its commands.
 */
import type { Command, Groups } from "../command_line/command.ts";
import { A2A_COMMANDS } from "./a2a.ts";
import { ADMIN_COMMANDS } from "./admin/admin.ts";
import { ADMIN_AGENT_COMMANDS } from "./admin/agents.ts";
import { AUDIT_COMMANDS } from "./admin/audit.ts";
import { CONSOLE_COMMANDS } from "./admin/console.ts";
import { PEOPLE_COMMANDS } from "./admin/people.ts";
import { ADMIN_RELAY_COMMANDS } from "./admin/relay.ts";
import { AGENT_COMMANDS } from "./agent.ts";
import { AGENT_TOKEN_COMMANDS } from "./agent_tokens.ts";
import { API_KEY_COMMANDS } from "./api_key.ts";
import { completionCommands } from "./completions.ts";
import { CONFIG_COMMANDS } from "./config.ts";
import { CONNECTOR_COMMANDS } from "./connector/connector.ts";
import { CONNECTOR_SERVICE_COMMANDS } from "./connector/connector_service.ts";
import { CONNECTOR_START_COMMANDS } from "./connector/connector_start.ts";
import { DEAD_LETTER_COMMANDS } from "./dead_letters.ts";
import { EXPLAIN_COMMANDS } from "./explain.ts";
import { INBOX_COMMANDS } from "./inbox.ts";
import { INSTALL_COMMANDS } from "./provider/install.ts";
import { HOOK_COMMANDS } from "./hook.ts";
import { INVITE_COMMANDS } from "./invite.ts";
import { JOIN_COMMANDS } from "./join.ts";
import { LOG_COMMANDS } from "./log.ts";
import { MCP_COMMANDS } from "./mcp.ts";
import { MCP_INSTALL_COMMANDS } from "./mcp_install.ts";
import { PEERS_COMMANDS } from "./peers.ts";
import { PROFILE_COMMANDS } from "./profile.ts";
import { PROVIDER_COMMANDS } from "./provider/provider.ts";
import { PROVIDER_SETUP_COMMANDS } from "./provider/provider_setup.ts";
import { RECEIPT_COMMANDS } from "./receipt.ts";
import { SEND_COMMANDS } from "./send.ts";
import { SERVER_COMMANDS } from "./server.ts";
import { STATUS_COMMANDS } from "./status.ts";
import { UNINSTALL_COMMANDS } from "./uninstall.ts";
import { VERIFY_COMMANDS } from "./verify.ts";

/** One sentence for each group of commands. */
export const GROUPS: Groups = {
  serve: "Run the server: registry and proxy.",
  demo: "See two agents exchange a message on this machine.",
  store: "Inspect, repair, export or import a store. Stop its server first.",
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

export const COMMANDS: readonly Command[] = [
  ...SERVER_COMMANDS,
  ...CONSOLE_COMMANDS,
  ...ADMIN_COMMANDS,
  ...PEOPLE_COMMANDS,
  ...ADMIN_AGENT_COMMANDS,
  ...ADMIN_RELAY_COMMANDS,
  ...AUDIT_COMMANDS,
  ...CONFIG_COMMANDS,
  ...PROFILE_COMMANDS,
  ...INVITE_COMMANDS,
  ...JOIN_COMMANDS,
  ...AGENT_COMMANDS,
  ...AGENT_TOKEN_COMMANDS,
  ...API_KEY_COMMANDS,
  ...STATUS_COMMANDS,
  ...PEERS_COMMANDS,
  ...SEND_COMMANDS,
  ...INBOX_COMMANDS,
  ...LOG_COMMANDS,
  ...MCP_INSTALL_COMMANDS,
  ...HOOK_COMMANDS,
  ...CONNECTOR_COMMANDS,
  ...CONNECTOR_START_COMMANDS,
  ...CONNECTOR_SERVICE_COMMANDS,
  ...A2A_COMMANDS,
  ...DEAD_LETTER_COMMANDS,
  ...MCP_COMMANDS,
  ...INSTALL_COMMANDS,
  ...PROVIDER_SETUP_COMMANDS,
  ...PROVIDER_COMMANDS,
  ...VERIFY_COMMANDS,
  ...RECEIPT_COMMANDS,
  ...EXPLAIN_COMMANDS,
  ...UNINSTALL_COMMANDS,
  ...completionCommands(() => COMMANDS, GROUPS),
];
