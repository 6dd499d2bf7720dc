/** The page that lists the registry's limits in force, and the variable that sets each. */
import { type ConsoleDeps, framed, type Input } from "./frame.ts";
import { markup } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";

export function limitsPage(deps: ConsoleDeps, input: Input): PageResult {
  const { config } = deps, { quotas } = config;
  const limits: [what: string, value: number, unit: string, variable: string | null][] = [
    ["Active agents of a person", quotas.agents, "", "QUOTA_AGENTS"],
    ["Active API keys of a person", quotas.apiKeys, "", "QUOTA_API_KEYS"],
    ["New agents of a person", quotas.registrationsPerDay, "a day", "QUOTA_REGISTRATIONS_PER_DAY"],
    ["New identities of an agent", quotas.agentReissuesPerDay, "a day", "QUOTA_AGENT_REISSUES_PER_DAY"],
    ["New identities of a person", quotas.reissuesPerDay, "a day", "QUOTA_REISSUES_PER_DAY"],
    ["Open challenges of a person", quotas.challenges, "", "QUOTA_CHALLENGES"],
    ["Revocations of a person that are kept", quotas.revocations, "", "QUOTA_REVOCATIONS"],
    ["Requests of a person", config.apiKeyRequestsPerMinute, "a minute", "API_KEY_REQUESTS_PER_MINUTE"],
    ["Access token", config.accessTokenTtlSeconds, "s", "ACCESS_TOKEN_TTL_SECONDS"],
    ["Refresh token", config.refreshTokenTtlSeconds, "s", "REFRESH_TOKEN_TTL_SECONDS"],
    ["Challenge", config.challengeTtlSeconds, "s", "CHALLENGE_TTL_SECONDS"],
    ["Open invites of an admin", LIMITS.openInvites, "", null],
  ];
  const rows = limits.map(([what, value, unit, variable]) => ({
    cells: [
      what,
      `${ui.number(value)} ${unit}`.trim(),
      variable === null ? "fixed" : markup`<span class="id">${variable}</span>`,
    ],
  }));
  const line =
    "Those of the registry in force, and the variable that sets each. Those of the proxy are in its own configuration.";
  const columns = ["What", { number: "Limit" }, "Set by"];
  const main = [ui.head("Limits", line), ui.table({ caption: "Limits", columns, rows })];
  return framed(deps, input, { title: "Limits", current: "limits", main });
}
