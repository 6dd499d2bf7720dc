/** A line for every command that a person may type, to try each in the same way. */
import { REGISTRY_URL } from "../support/world.ts";

/** What the lines name. */
interface Names {
  /** Beside `alpha`. */
  agent: string;
  /** ID of an internal service. */
  service: string;
  humanName: string;
  /** The path of a file of the machine; `pem` is a certificate. */
  path(file: string): string;
}

/** Returns the words of each line, in an order in which the earlier ones leave what the later ones name. */
export function everyCommand({ agent, service, humanName, path }: Names): string[][] {
  const bootstrap = ["admin", "bootstrap", "--bootstrap-secret", "secret-that-is-wrong"];
  return [
    ...[["serve"], ["demo"], ["health"], ["hook", "claude-code"], ["admin", "open", "--print"], bootstrap],
    ...["inspect", "recover", "export", "import"].map((name) => ["store", name]),
    ...["rotate", "revoke"].map((name) => ["admin", "service", name, service]),
    ["admin", "service", "create", "s".repeat(63)],
    ["admin", "keys", "rotate"],
    ...["suspend", "restore"].map((name) => ["admin", "people", name, agent, "--yes"]),
    ...["end-session", "revoke"].map((name) => ["admin", "agents", name, agent, "--yes"]),
    ...[["init"], ["set", "humanName", humanName], ["get", "humanName"]].map((words) => ["config", ...words]),
    ...[["list"], ["show"], ["set", "historyDays", "30"], ["set", "ca", path("pem")]].map((
      words,
    ) => ["profile", ...words]),
    ["profile", "set", "ca", "none"],
    ...[["revoke", "ABCDEF"], ["redeem", "svc_inv_x"]].map((words) => ["invite", ...words]),
    ["join", `${REGISTRY_URL}/join#svc_inv_x`, "--agent", "beta"],
    ...[["create", agent.slice(1)], ["reissue", "alpha"], ["auth", "refresh", "alpha"]].map((
      words,
    ) => ["agent", ...words]),
    ...[["auth", "revoke", agent], ["delete", agent, "--yes"]].map((words) => ["agent", ...words]),
    ...[["create", "--name", humanName], ["revoke", "ABCDEF"]].map((words) => ["api-key", ...words]),
    ["peers", "remove", agent, "--yes", "--agent", "alpha"],
    ["reply", "12", "text", "--agent", "alpha"],
    ["log", "--agent", "alpha"],
    ...["open", "start"].map((name) => ["connector", name, "nobody"]),
    ...["install", "uninstall", "logs"].map((name) => ["connector", "service", name, "nobody"]),
    ["mcp", "install", "alpha", "--for", "cursor", "--print"],
    ["mcp", "nobody"],
    ...["add", "remove"].map((name) => ["a2a", name, agent, "--agent", "alpha"]),
    ...["replay", "purge"].map((name) => ["dead-letters", name, "7", "--agent", "alpha"]),
    ["install", "--for", "generic"],
    ["provider", "setup", "--for", "generic"],
    ["provider", "relay-test", "--agent", "alpha"],
    ["verify", "nonsense"],
    ["receipt", "verify", path("nothing")],
  ];
}

/** Returns the words of lines that show a list or a record. @param agent beside `alpha`, and the name of a person */
export function everyList(agent: string): string[][] {
  return [
    ["agent", "list"],
    ["agent", "inspect", "alpha"],
    ["agent", "inspect", agent],
    ["api-key", "list"],
    ["invite", "list"],
    ["invite", "create"],
    ["config", "show"],
    ["whoami"],
    ["status"],
    ["a2a", "list", "--agent", "alpha"],
    ["install", "--list"],
    ["uninstall", "--print"],
    ["explain", "PROXY_AUTH_REPLAY"],
    ["explain", "NONSENSE"],
    ["send", "nobody", "text", "--agent", "alpha"],
    ["provider", "status"],
    ["provider", "doctor", "--agent-name", "alpha"],
    ["connector", "alpha"],
    ["admin", "people", "list"],
    ["admin", "people", "show", agent],
    ["admin", "agents", "list", "--online"],
    ["admin", "agents", "show", "alpha"],
    ["admin", "service", "list"],
    ["admin", "issuers"],
    ["admin", "relay", "queues"],
    ["admin", "relay", "refusals"],
    ["admin", "relay", "delivery", "request-0001"],
    ["admin", "overview"],
    ["admin", "audit"],
  ];
}
