/** Invites: the list of open and used ones, the form for a new one, and the button that takes one back. */
import {
  type ConsoleDeps,
  cursorOf,
  failed,
  framed,
  type Input,
  PAGE_ROWS,
  peopleByDid,
  personLink,
  shortId,
} from "./frame.ts";
import { createInvite, deleteInvite, inviteStatus, listInvites } from "../invites/store.ts";
import { type Html, markup } from "../../shared/page/html.ts";
import type { PageResult } from "../../shared/page/page_app.ts";
import * as ui from "../../shared/page/parts.ts";
import { duration, moment, msOf, when } from "../../shared/page/times.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import { toIso } from "../../shared/protocol/time.ts";

const DAYS = [["1", "1 day"], ["7", "7 days"], ["30", "30 days"], ["0", "no end"]] as const;
const STATUS_TAGS = {
  unused: ui.tag("ok", "open"),
  redeemed: ui.tag("", "used"),
  expired: ui.tag("bad", "expired"),
} as const;

export async function invitesPage(deps: ConsoleDeps, input: Input, error?: Html): Promise<PageResult> {
  const { base, csrf } = input;
  const { items, nextCursor } = await listInvites(deps, { limit: PAGE_ROWS, cursor: cursorOf(input) });
  const now = deps.clock.now();
  const people = await peopleByDid(deps, items.flatMap(({ redeemedBy }) => redeemedBy ?? []));
  const rows = items.map((invite) => {
    const status = inviteStatus(invite, now), by = people.get(invite.redeemedBy ?? "");
    const isOpen = status === "unused", { expiresAt } = invite;
    return {
      cells: [
        markup`<span class="id">${shortId(invite.id)}</span>`,
        STATUS_TAGS[status],
        when(invite.createdAt, now),
        isOpen && (expiresAt === null ? "never" : `in ${duration(msOf(expiresAt) - now)}`),
        by !== undefined && personLink(base, by),
        isOpen && markup`<a href="${`${base}/invites/${invite.id}/delete`}">Take back…</a>`,
      ],
    };
  });
  const columns = ["Invite", "Status", "Created", "Ends", "Used by", "Action"];
  const older = nextCursor === null ? null : `?${new URLSearchParams({ cursor: nextCursor })}`;
  const main = [
    ui.head("Invites", "Each one makes one account, with a first agent by one command."),
    error,
    markup`<form method="post" action="${`${base}/invites`}" class="filter">${csrf}${ui.hidden({ id: deps.newId() })}${
      ui.choice("days", "Works for", DAYS, "7")
    }<button class="btn">Create an invite</button></form>`,
    rows.length === 0
      ? ui.empty("No invites yet", "Create one and send its link to one person.")
      : [ui.table({ caption: "Invites", columns, rows }), ui.pager(`${PAGE_ROWS} on a page`, older)],
  ];
  return framed(deps, input, { title: "Invites", current: "invites", main, hasField: true });
}

/** Creates an invite. Only this answer can show its link, because the store has a digest in place of the code. */
export async function newInvite(deps: ConsoleDeps, input: Input): Promise<PageResult> {
  const [days] = DAYS.find(([value]) => value === input.form.get("days")) ?? ["7"];
  const now = deps.clock.now(), id = input.form.get("id");
  const expiresAt = days === "0" ? null : toIso(now + Number(days) * DAY_MS);
  let code: string;
  try {
    ({ code } = await createInvite(deps, input.session, expiresAt, isUlid(id) ? id : undefined));
  } catch (error) {
    if (error instanceof ServiceError && error.code === "INVITE_CREATE_INVALID") {
      const lost = "This form has made its invite, whose link was shown once. If it is lost, take that invite back.";
      return await invitesPage(deps, input, ui.problem("No second invite.", lost));
    }
    return await invitesPage(deps, input, failed("No invite.", error));
  }
  const address = `${deps.config.registryUrl}/join#${code}`;
  const ends = expiresAt === null ? "It does not end." : markup`It ends ${moment(expiresAt, now)}.`;
  const main = markup`<div class="form stack">${ui.head("Invite created", ends)}${
    ui.note(
      "warn",
      "The link is shown only now. It works once: send it to one person, by a way that only this person reads.",
    )
  }${ui.copy("link", address)}${ui.qr(address, "QR code of the link")}<div class="row">${
    ui.link(`${input.base}/invites`, "Done")
  }</div></div>`;
  return framed(deps, input, { title: "Invite created", current: "invites", main: [main] });
}

export function askDelete(deps: ConsoleDeps, { params, session }: Input) {
  const id = params.id ?? "";
  const question = {
    title: "Take this invite back?",
    text: "Its link stops working at once.",
    facts: ui.card("The invite", ui.lines([["ID", markup`<span class="id">${id}</span>`]])),
    label: "Take it back",
  };
  const act = () => deleteInvite(deps, session, id);
  return isUlid(id)
    ? { question, title: "Take an invite back", record: "invites", current: "invites", act }
    : { to: "invites" };
}
