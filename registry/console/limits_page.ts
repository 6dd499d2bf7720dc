/** The page that lists the limits in force, and the variable that sets each. */
import { awayNote, type ConsoleDeps, framed, type Input, orAway } from "./frame.ts";
import { askRelay, RelayAway } from "./relay.ts";
import { markup } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { RelayOverview } from "../../shared/protocol/api/relay_admin.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";

type Row = [what: string, value: number, unit: string, variable: string | null];

export async function limitsPage(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const { config } = deps, { quotas } = config;
  const relay = await orAway(askRelay(deps, input.session, "overview", {}, RelayOverview));
  const isAway = relay instanceof RelayAway;
  const limits: Row[] = [
    ...isAway ? [] : ofProxy(relay),
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
  const line = "Those in force, and the variable that sets each. A change needs a restart of the server.";
  const columns = ["What", { number: "Limit" }, "Set by"];
  const away = isAway && awayNote(deps, relay);
  const main = [ui.head("Limits", line), away, ui.table({ caption: "Limits", columns, rows })];
  return framed(deps, input, { title: "Limits", current: "limits", main });
}

function ofProxy({ agentLimit: { requests, windowMs }, limits }: RelayOverview): Row[] {
  const window = windowMs === 60_000 ? "a minute" : `in ${windowMs / 1000} s`;
  return [
    ["Messages of an agent", requests, window, "AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE"],
    ["Messages of all agents of a person", limits.ownerRequests, "a minute", "OWNER_RATE_LIMIT_REQUESTS_PER_MINUTE"],
    ["Pairs of an agent", limits.pairs, "", "QUOTA_PAIRS"],
    ["Waiting messages to, and from, agents of a person", limits.mailboxBytes, "bytes", "QUOTA_MAILBOX_BYTES"],
    ["A message waits", limits.mailboxSeconds, "s", "RELAY_MAILBOX_TTL_SECONDS"],
    ["A receipt is kept", limits.receiptSeconds, "s", "RECEIPT_RETENTION_SECONDS"],
  ];
}
