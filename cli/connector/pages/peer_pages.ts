/** Peers: who they are, their names, blocking and the end of a pair. */
import { call, post } from "../../../shared/client/local_client.ts";
import { ChangedPeer, type LocalPeer } from "../../../shared/client/local_shapes.ts";
import { apiErrorOf } from "../../../shared/client/http.ts";
import { type Html, markup } from "../../../shared/page/html.ts";
import type { PageResult } from "../../../shared/page/page_app.ts";
import * as ui from "../../../shared/page/parts.ts";
import { moment } from "../../../shared/page/times.ts";
import { ALIAS_CHARACTERS_MAX } from "../peers/aliases.ts";
import { presenceText } from "../peers/peer_columns.ts";
import { connectorPeers } from "../peers/peer_list.ts";
import { perhapsReplaced, presentPeers } from "../peers/peers.ts";
import { failed, framed, type Input, type LocalRow, PAGE_ROWS, type Pages, peerPath, threadPath } from "./frame.ts";

export const peerRows: readonly LocalRow[] = [
  { method: "GET", path: "peers", live: true, render: peersPage },
  { method: "GET", path: "peers/:alias", render: peerPage },
  { method: "POST", path: "peers/:alias/rename", render: rename },
  { method: "POST", path: "peers/:alias/block", render: (pages, input) => block(pages, input, "block") },
  { method: "POST", path: "peers/:alias/unblock", render: (pages, input) => block(pages, input, "unblock") },
  { method: "GET", path: "peers/:alias/remove", render: removePage },
  { method: "POST", path: "peers/:alias/remove", render: remove },
  { method: "GET", path: "peers/:alias/replace", render: replacePage },
  { method: "POST", path: "peers/:alias/replace", render: replace },
];

/** What a person is told of how a peer's key is known. */
const PROOFS = {
  ticket: "A ticket proved its key: messages are proven end to end and sealed, so no server can read or change them.",
  contact: "A contact: the servers named its key, and they can read what is written. A ticket proves it.",
} as const;

/** What the proxy knows of the peers, by DID; empty if it cannot be asked, because the page is useful without it. */
async function listedByDid({ calls }: Pages): Promise<Map<string, LocalPeer>> {
  const peers = await connectorPeers(calls).catch(() => []);
  return new Map(peers.map((peer) => [peer.agentDid, peer]));
}

async function peersPage(pages: Pages, input: Input): Promise<PageResult> {
  const { base, query } = input;
  const peers = Object.entries(presentPeers(pages.connector.peers.all));
  const action = ui.link(`${base}/pair`, "Pair with an agent");
  if (peers.length === 0) {
    const text = "Only agents whose people have paired them write to each other.";
    const main = markup`${ui.head("Peers")}${ui.empty("No peers yet", text, action)}`;
    return framed(pages, input, { title: "Peers", current: "peers", main, kind: "none" });
  }
  const now = pages.connector.deps.clock.now();
  const from = query.get("after") ?? "";
  const rest = peers.filter(([alias]) => alias > from);
  const shown = rest.slice(0, PAGE_ROWS);
  const [last = ""] = shown.at(-1) ?? [];
  const listed = await listedByDid(pages);
  const rows = shown.map(([alias, { humanName, agentName, did }]) => ({
    cells: [
      markup`<a class="name" href="${`${base}/${peerPath(alias)}`}">${ui.name(alias)}</a>`,
      ui.name(humanName),
      ui.name(agentName),
      presenceText(listed.get(did), now),
    ],
  }));
  const main = markup`<div class="stack">${ui.head("Peers", null, action)}${
    ui.table({ caption: "Peers", id: "peers", columns: ["Peer", "Person", "Agent", "State"], rows })
  }${
    ui.pager(
      `${shown.length} of ${peers.length}`,
      rest.length > PAGE_ROWS ? `?after=${encodeURIComponent(last)}` : null,
    )
  }</div>`;
  return framed(pages, input, { title: "Peers", current: "peers", main, kind: "rows" });
}

async function peerPage(
  pages: Pages,
  input: Input,
  refused: { alias: string; problem: Html } | null = null,
): Promise<PageResult> {
  const { base, csrf, params, query } = input;
  const alias = params.alias ?? "";
  const peer = pages.connector.peers.all[alias];
  if (peer === undefined) return { to: "peers" };
  const { gone, blocked, since } = peer;
  const path = `${base}/${peerPath(alias)}`;
  const now = pages.connector.deps.clock.now();
  const state = gone ? "the pair has ended" : presenceText((await listedByDid(pages)).get(peer.did), now);
  const facts = ui.lines([
    ["Agent", ui.name(peer.agentName)],
    ["Person", ui.name(peer.humanName)],
    ["State", state ?? "not known"],
    ["Proof", peer.how === undefined ? "Its key is not known yet." : PROOFS[peer.how]],
    ["Known since", since === undefined ? "not yet" : moment(since, now)],
    ["DID", markup`<span class="id">${peer.did}</span>`],
  ]);
  const aliasField = ui.field({
    id: "alias",
    label: "Its name here",
    value: refused?.alias ?? alias,
    maxLength: ALIAS_CHARACTERS_MAX,
    isId: true,
    hint: "Only you see it. The name of before goes on working.",
  });
  const nameForm =
    markup`<form method="post" action="${`${path}/rename`}" class="stack tight">${csrf}${refused?.problem}${aliasField}<div><button class="btn quiet">Rename</button></div></form>`;
  // There is no link to write to a blocked peer, because what a person writes would not be sent.
  const write = !blocked && ui.link(`${base}/${threadPath(alias)}`, markup`Write to ${ui.name(alias)}`);
  const [text, change] = blocked ? ["Unblock", "unblock"] : ["Block", "block"];
  const actions = markup`<div class="row">${write}${
    ui.button({ text, action: `${path}/${change}`, csrf, look: "quiet" })
  }${ui.link(`${path}/remove`, "End the pair…", "quiet")}</div>`;
  const isNew = query.has("new"), before = isNew ? replacedBy(pages, alias) : null;
  const asked = before !== null &&
    ui.note("", markup`Is this the new agent of ${ui.name(before)}? ${ui.link(`${path}/replace`, "Yes…", "bare")}`);
  const main = markup`${
    isNew
      ? ui.head(
        markup`Paired with ${ui.name(alias)}`,
        blocked
          ? "You blocked this peer before, so neither can write to the other until you unblock it."
          : "Both agents can write to each other from now on.",
      )
      : ui.head(ui.name(alias))
  }<div class="stack form">${asked}${ui.card("The other agent", facts)}${
    !gone && markup`${actions}${ui.card("Name", nameForm)}`
  }</div>`;
  return framed(pages, input, { title: alias, current: isNew ? "pair" : "peers", main, hasField: !gone });
}

async function rename(pages: Pages, input: Input): Promise<PageResult> {
  const alias = (input.form.get("alias") ?? "").trim(), peer = input.params.alias ?? "";
  try {
    const renamed = await call(pages.calls, ChangedPeer, post("/v1/peers/rename", { peer, alias }));
    return { to: peerPath(renamed.alias) };
  } catch (error) {
    return await peerPage(pages, input, { alias, problem: failed("The name has not changed.", error, pages) });
  }
}

async function block(pages: Pages, input: Input, change: "block" | "unblock"): Promise<PageResult> {
  const alias = input.params.alias ?? "";
  try {
    await call(pages.calls, ChangedPeer, post(`/v1/peers/${change}`, { peer: alias }));
    return { to: peerPath(alias) };
  } catch (error) {
    return await peerPage(pages, input, { alias, problem: failed("Nothing has changed.", error, pages) });
  }
}

function removePage(pages: Pages, input: Input, error?: Html): PageResult {
  const alias = input.params.alias ?? "";
  const peer = pages.connector.peers.all[alias];
  if (peer === undefined || peer.gone) return { to: "peers" };
  const path = `${input.base}/${peerPath(alias)}`;
  const facts = ui.lines([["Agent", ui.name(peer.agentName)], ["Person", ui.name(peer.humanName)]]);
  const main = ui.confirmation({
    title: markup`End the pair with ${ui.name(alias)}?`,
    text: "Neither agent can write to the other afterwards. To write again, both people pair them again.",
    facts: ui.card("The other agent", facts),
    label: `End the pair with ${alias}`,
  }, { action: `${path}/remove`, csrf: input.csrf, back: path, error });
  return framed(pages, input, { title: alias, current: "peers", main, hasField: true });
}

async function remove(pages: Pages, input: Input): Promise<PageResult> {
  const error = apiErrorOf(await pages.calls.send(post("/v1/pair/remove", { to: input.params.alias ?? "" })));
  return error === null ? { to: "peers" } : removePage(pages, input, failed("The pair has not ended.", error, pages));
}

/** The peer whose place a new one may take (D-145); `null` for none. */
function replacedBy({ connector: { peers } }: Pages, alias: string): string | null {
  return perhapsReplaced(peers.all, peers.all[alias]?.did ?? "");
}

function replacePage(pages: Pages, input: Input, error?: Html): PageResult {
  const alias = input.params.alias ?? "", before = replacedBy(pages, alias);
  if (before === null) return { to: peerPath(alias) };
  const path = `${input.base}/${peerPath(alias)}`;
  const main = ui.confirmation({
    title: markup`Is ${ui.name(alias)} the new agent of ${ui.name(before)}?`,
    text: markup`It is called ${ui.name(before)} from now on, and the pair with the old agent ends.`,
    label: "Yes, replace it",
    no: "No",
  }, { action: `${path}/replace`, csrf: input.csrf, back: path, error });
  return framed(pages, input, { title: alias, current: "peers", main, hasField: true });
}

async function replace(pages: Pages, input: Input): Promise<PageResult> {
  const peer = input.params.alias ?? "", alias = replacedBy(pages, peer);
  if (alias === null) return { to: peerPath(peer) };
  try {
    await call(pages.calls, ChangedPeer, post("/v1/peers/rename", { peer, alias, replaces: true }));
    return { to: peerPath(alias) };
  } catch (error) {
    return replacePage(pages, input, failed("Nothing has changed.", error, pages));
  }
}
