/** Names of the hosts and scopes of `svc mcp install` (D-131). table.ts has a row for each host. */

export const HOST_IDS = ["claude-code", "codex", "cursor", "gemini", "vscode", "openclaw"] as const;
export type HostId = (typeof HOST_IDS)[number];

/** `user`: for every project of this user; `project`: for one folder, in a file that its other users may share. */
export const SCOPES = ["user", "project"] as const;
export type Scope = (typeof SCOPES)[number];
