/**
 * THE command table: every command, in the order in which help and docs/cli.md show them. What a command does is in the
 * file of its group.
 */
import type { Command, Groups } from "../command_line/command.ts";
import { ADMIN_COMMANDS } from "./admin.ts";
import { AGENT_COMMANDS } from "./agent.ts";
import { AGENT_TOKEN_COMMANDS } from "./agent_tokens.ts";
import { API_KEY_COMMANDS } from "./api_key.ts";
import { completionCommands } from "./completions.ts";
import { CONFIG_COMMANDS } from "./config.ts";
import { CONNECTOR_COMMANDS } from "./connector.ts";
import { CONNECTOR_SERVICE_COMMANDS } from "./connector_service.ts";
import { CONNECTOR_START_COMMANDS } from "./connector_start.ts";
import { EXPLAIN_COMMANDS } from "./explain.ts";
import { INSTALL_COMMANDS } from "./install.ts";
import { INVITE_COMMANDS } from "./invite.ts";
import { PROVIDER_COMMANDS } from "./provider.ts";
import { PROVIDER_SETUP_COMMANDS } from "./provider_setup.ts";
import { VERIFY_COMMANDS } from "./verify.ts";

/** What the commands of a group have in common. */
export const GROUPS: Groups = {
  admin: "The registry itself: its first admin, the services that ask it, its signing keys.",
  "admin service": "Credentials of the services that ask the registry, the proxy first of all.",
  "admin keys": "The keys that sign identity tokens and revocation lists.",
  config: "Local configuration: which registry, which proxy, whose API key.",
  invite: "Invites: how further people get an account.",
  agent: "Agents: their identities on this machine and at the registry.",
  "agent auth": "An agent's session with the services: its access and refresh tokens.",
  "api-key": "Your API keys.",
  connector: "The connector that runs beside an agent's runtime.",
  "connector service": "The connector as a service of the system.",
  install: "The agent runtime on this machine.",
  provider: "An agent's runtime: its state, its settings, a try-out.",
  verify: "Verification, step by step.",
  explain: "Error codes.",
  completions: "Completion in your shell.",
};

export const COMMANDS: readonly Command[] = [
  ...ADMIN_COMMANDS,
  ...CONFIG_COMMANDS,
  ...INVITE_COMMANDS,
  ...AGENT_COMMANDS,
  ...AGENT_TOKEN_COMMANDS,
  ...API_KEY_COMMANDS,
  ...CONNECTOR_COMMANDS,
  ...CONNECTOR_START_COMMANDS,
  ...CONNECTOR_SERVICE_COMMANDS,
  ...INSTALL_COMMANDS,
  ...PROVIDER_SETUP_COMMANDS,
  ...PROVIDER_COMMANDS,
  ...VERIFY_COMMANDS,
  ...EXPLAIN_COMMANDS,
  ...completionCommands(() => COMMANDS, GROUPS),
];
