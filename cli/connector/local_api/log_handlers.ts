/** Handlers of what was written: both directions in order, a search, and the end of texts. */
import * as z from "zod";
import type { Forgotten } from "../../../shared/client/local_shapes.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { type Content, History, type Place, type Written } from "../store/history.ts";
import { didEver } from "./inbox_handlers.ts";
import { type BodyInput, json, jsonText, type QueryInput, wholeNumberOr } from "./local_route.ts";
import { messageJson, type PeerNames, sentLogJson, textOf } from "./message_json.ts";

const Peer = z.string().min(1).max(256);

/** A place, as `next` of a page gives it. */
const PlaceText = z.string().max(40).transform((text, { addIssue }): Place => {
  const [received = NaN, sent = NaN, ...rest] = text.split("-").map((part) => part === "" ? NaN : Number(part));
  if (!Number.isSafeInteger(received) || !Number.isSafeInteger(sent) || rest.length > 0) {
    addIssue({ code: "custom", message: "is not the place of another page" });
  }
  return { received, sent };
});

/** Query of `GET /v1/log`; `peer` is an alias or a DID. `before` gives the newest first, `after` the oldest. */
export const LogQuery = z.strictObject({
  peer: Peer.optional(),
  since: z.iso.datetime().optional(),
  search: z.string().min(1).max(256).optional(),
  before: PlaceText.optional(),
  after: PlaceText.optional(),
  limit: wholeNumberOr(LIMIT.pageMessages, 1, LIMIT.pageMessagesMax),
});

/** Body of `POST /v1/log/forget`; without `peer` all texts are blanked. */
export const LogForget = z.strictObject({ peer: Peer.optional() });

export async function log({ connector, query }: QueryInput<typeof LogQuery>): Promise<Response> {
  const { peer, since, search, before, after, limit } = query;
  const { store: { database, sent } } = connector;
  const { messages, next } = await new History(database, sent).page({
    did: peer === undefined ? undefined : await didEver(connector, peer),
    since: since === undefined ? undefined : Date.parse(since),
    isWanted: search === undefined ? undefined : hasText(search),
    from: after === undefined ? before && { before } : { after },
    limit,
  });
  const texts = messages.map((one) => writtenJson(one, connector.peers));
  const place = next === null ? null : `${next.received}-${next.sent}`;
  return jsonText(`{"messages":[${texts.join(",")}],"next":${JSON.stringify(place)}}`);
}

export async function forget({ connector, body: { peer } }: BodyInput<typeof LogForget>): Promise<Response> {
  const did = peer === undefined ? null : await didEver(connector, peer);
  const forgotten = connector.store.forgetTexts(did);
  connector.version++;
  return json({ forgotten } satisfies z.output<typeof Forgotten>);
}

function writtenJson(one: Written, names: PeerNames): string {
  if (one.kind === "sent") return sentLogJson(one.message, one.payload, names);
  return `{"kind":"received",${messageJson(one.message, names).slice(1)}`;
}

/** Whether a message has a text, without regard to case; of one without text its JSON is searched. */
function hasText(search: string): (content: Content) => boolean {
  const wanted = search.toLowerCase();
  return (content) => {
    const raw = content.payload.toLowerCase();
    // Without an escape, what is not in the JSON is not in the text either, so most messages are not parsed then.
    if (!raw.includes("\\") && !raw.includes(wanted)) return false;
    return (textOf(content) ?? raw).toLowerCase().includes(wanted);
  };
}
