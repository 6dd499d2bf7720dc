/** Invites: open and used ones, a new one whose link is shown once, take one back. And the limits in force. */
import {
  confirmation,
  type ConsolePages,
  type ConsoleRow,
  failed,
  framed,
  type Input,
  PAGE_ROWS,
  shortId,
} from "./frame.ts";
import { createInvite, deleteInvite, inviteStatus, listInvites } from "../invites/store.ts";
import { type Html, markup } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import {
  choice,
  copy,
  empty,
  head,
  lines,
  link,
  name,
  note,
  number,
  pager,
  qr,
  type Row,
  table,
  tag,
} from "../../shared/page/parts.ts";
import { duration, moment, when } from "../../shared/page/times.ts";
import { peopleByDid } from "./frame.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";

export const inviteRows: readonly ConsoleRow[] = [
  { method: "GET", path: "invites", render: invitesPage },
  { method: "POST", path: "invites", render: create },
  { method: "GET", path: "invites/:id/delete", render: deletePage },
  { method: "POST", path: "invites/:id/delete", render: remove },
  { method: "GET", path: "limits", render: limitsPage },
];

const DAYS = [["1", "1 day"], ["7", "7 days"], ["30", "30 days"], ["0", "no end"]] as const;

async function invitesPage(pages: ConsolePages, input: Input, error?: Html): Promise<PageResult> {
  const { deps } = pages, { base, csrf, query } = input;
  const cursor = query.get("cursor") ?? "";
  const { items, nextCursor } = await listInvites(deps, {
    limit: PAGE_ROWS,
    cursor: isUlid(cursor) ? cursor : undefined,
  });
  const now = deps.clock.now();
  const people = await peopleByDid(pages, items.flatMap(({ redeemedBy }) => redeemedBy ?? []));
  const rows = items.map((invite): Row => {
    const status = inviteStatus(invite, now), expiresAt = parseIso(invite.expiresAt ?? "");
    const by = people.get(invite.redeemedBy ?? "");
    return {
      cells: [
        markup`<span class="id">${shortId(invite.id)}</span>`,
        status === "unused" ? tag("ok", "open") : status === "redeemed" ? tag("", "used") : tag("bad", "expired"),
        when(parseIso(invite.createdAt) ?? now, now),
        status !== "unused" ? "" : expiresAt === null ? "never" : `in ${duration(expiresAt - now)}`,
        by !== undefined && markup`<a class="name" href="${`${base}/people/${by.id}`}">${name(by.displayName)}</a>`,
        status === "unused" && markup`<a href="${`${base}/invites/${invite.id}/delete`}">Take back…</a>`,
      ],
    };
  });
  const main = markup`<div class="stack">${
    head("Invites", "Each one makes one account, with a first agent by one command.")
  }${error}<form method="post" action="${`${base}/invites`}" class="filter">${csrf}${
    choice("days", "Works for", DAYS, "7")
  }<button class="btn">Create an invite</button></form>${
    rows.length === 0 ? empty("No invites yet", "Create one and send its link to one person.") : markup`${
      table({
        caption: "Invites",
        columns: [
          { text: "Invite" },
          { text: "Status" },
          { text: "Created" },
          { text: "Ends" },
          { text: "Used by" },
          { text: "Action" },
        ],
        rows,
      })
    }${pager(`${PAGE_ROWS} on a page`, nextCursor === null ? null : `?${new URLSearchParams({ cursor: nextCursor })}`)}`
  }</div>`;
  return framed(pages, input, { title: "Invites", current: "invites", main, hasField: true });
}

/** The link is shown by this answer only: no address leads to it again. */
async function create(pages: ConsolePages, input: Input): Promise<PageResult> {
  const { deps } = pages, { human, requestId } = input.session;
  const days = DAYS.map(([value]) => Number(value)).find((known) => String(known) === input.form.get("days")) ?? 7;
  const now = deps.clock.now();
  const expiresAt = days === 0 ? null : toIso(now + days * DAY_MS);
  let code: string;
  try {
    ({ code } = await createInvite(deps, human, expiresAt, requestId));
  } catch (error) {
    return await invitesPage(pages, input, failed("No invite.", error));
  }
  const address = `${deps.config.registryUrl}/join#${code}`;
  const main = markup`<div class="form stack">${
    head(
      "Invite created",
      expiresAt === null ? "It does not end." : markup`It ends ${moment(now + days * DAY_MS, now)}.`,
    )
  }${
    note(
      "warn",
      "The link is shown only now. It works once: send it to one person, by a way that only this person reads.",
    )
  }${copy("link", address)}${qr(address, "QR code of the link")}<div class="row">${
    link(`${input.base}/invites`, "Done")
  }</div></div>`;
  return framed(pages, input, { title: "Invite created", current: "invites", main });
}

function deletePage(pages: ConsolePages, input: Input, error?: Html): PageResult {
  const id = input.params.id ?? "";
  if (!isUlid(id)) return { to: "invites" };
  const main = confirmation(input, {
    title: "Take this invite back?",
    mood: "bad",
    text: "Its link stops working at once.",
    facts: lines([["Invite", markup`<span class="id">${id}</span>`]]),
    action: `invites/${id}/delete`,
    label: "Take it back",
    back: "invites",
    error,
  });
  return framed(pages, input, { title: "Take an invite back", current: "invites", main, hasField: true });
}

async function remove(pages: ConsolePages, input: Input): Promise<PageResult> {
  const { human, requestId } = input.session;
  try {
    await deleteInvite(pages.deps, human, input.params.id ?? "", requestId);
  } catch (error) {
    return deletePage(pages, input, failed("Not taken back.", error));
  }
  return { to: "invites" };
}

function limitsPage(pages: ConsolePages, input: Input): PageResult {
  const { config } = pages.deps, { quotas } = config;
  const rows: [what: string, value: number, unit: string, variable: string | null][] = [
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
  const main = markup`<div class="stack">${
    head(
      "Limits",
      "Those of the registry in force, and the variable that sets each. Those of the proxy are in its own configuration.",
    )
  }${
    table({
      caption: "Limits",
      columns: [{ text: "What" }, { text: "Limit", isNumber: true }, { text: "Set by" }],
      rows: rows.map(([what, value, unit, variable]): Row => ({
        cells: [
          what,
          `${number(value)} ${unit}`.trim(),
          variable === null ? "fixed" : markup`<span class="id">${variable}</span>`,
        ],
      })),
    })
  }</div>`;
  return framed(pages, input, { title: "Limits", current: "limits", main });
}
