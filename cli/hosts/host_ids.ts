/** Names of the hosts and scopes of `svc mcp install`. table.ts has a row for each host. */

export const HOST_IDS = ["claude-code", "codex", "cursor", "gemini", "vscode", "openclaw"] as const;
export type HostId = (typeof HOST_IDS)[number];

/** When a person runs `svc mcp install`; the command beside it names one of the hosts. */
export const IN_A_CODING_AGENT = `to use it in a coding agent (${HOST_IDS.join(", ")})`;

/**
 * How a message wakes the model: `inbox` through what the host has for it, `hook` by a hook at the end of a turn, `auto` by
 * the hook where a session has no inbox.
 */
export const WAKES = ["auto", "inbox", "hook"] as const;
export type Wake = (typeof WAKES)[number];

/** `user`: for every project of this user; `project`: for one folder, in a file that its other users may share. */
export const SCOPES = ["user", "project"] as const;
export type Scope = (typeof SCOPES)[number];
