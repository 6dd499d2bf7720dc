/**
 * Messages as a connector's local API returns them, for a terminal and as JSON. The JSON text of a message is kept, so
 * that its payload stays byte for byte as its sender wrote it.
 */
import { arrayElements, memberText } from "../../shared/protocol/json_text.ts";
import { callForText, get, type LocalCalls } from "../../shared/client/local_client.ts";
import { InboxPage, type LocalMessage } from "../../shared/client/local_shapes.ts";
import { READABLE } from "../connector/peers/peer_columns.ts";
import { linesOf, peerText } from "../terminal/escapes.ts";
import type { Query } from "../../shared/client/http.ts";
import { layOut, wordWrap } from "../terminal/text_width.ts";
import { whenText } from "../terminal/times.ts";

export interface WithText<M> {
  message: M;
  json: string;
}
export type Received = WithText<LocalMessage>;

export interface ReceivedPage {
  messages: Received[];
  more: boolean;
}

/**
 * Reads a page of the inbox.
 *
 * @param query of `GET /v1/inbox`, with `wait`
 * @throws as `call`
 */
export async function readPage(connector: LocalCalls, query: Query & { wait?: number }): Promise<ReceivedPage> {
  const request = { ...get("/v1/inbox", query), waitSeconds: query.wait ?? 0 };
  const { body, json } = await callForText(connector, InboxPage, request);
  return { messages: withTexts(body.messages, json), more: body.more };
}

/** The messages of a page, each with its text in the JSON of the page. */
export function withTexts<M>(messages: readonly M[], page: string): WithText<M>[] {
  const texts = arrayElements(memberOf(page, "messages"));
  return messages.map((message, i) => ({ message, json: texts[i] ?? "{}" }));
}

/** The value of a member as JSON text; empty when there is none. */
export function memberOf(json: string, name: string): string {
  return memberText(json, name) ?? "";
}

/** The payload as JSON text; empty when the content is deleted. */
export function payloadOf({ message, json }: Received): string {
  return message.payload === null && message.readAt !== null ? "" : memberOf(json, "payload");
}

/** Returns the content as lines: the text, else the payload as JSON. Control characters are not escaped yet. */
export function contentLines(received: Received): string[] {
  return linesOf(received.message.text ?? (payloadOf(received) || "(its content is deleted)"));
}

const INDENT = "    ";

/**
 * A message for a list: one line about it, then its content, indented so that no content looks like another message.
 *
 * @param columns of the terminal, which would continue a longer line at its first column; `null`: not a terminal
 * @param now milliseconds
 */
export function messageLines(received: Received, columns: number | null, now: number): string[] {
  const { id, receivedAt, from, verified, inReplyTo, isReply, auto, mayBeRepeat, error } = received.message;
  const shownId = (id: string) => columns === null ? id : `…${id.slice(-6)}`;
  const about = [
    String(id),
    columns === null ? receivedAt : whenText(Date.parse(receivedAt), now),
    from.alias ?? shownId(from.agentDid),
    verified === "end-to-end" ? verified : READABLE,
    inReplyTo === null
      ? null
      : isReply
      ? `reply to ${shownId(inReplyTo)}`
      : `names ${shownId(inReplyTo)}, which svc sent does not list for this peer`,
    auto ? "automatic" : null,
    mayBeRepeat ? "may have been shown before" : null,
    error === null ? null : `no answer, ${error.code}`,
  ];
  // The last column stays free, because some terminals wrap when it is filled.
  const width = columns === null ? Infinity : columns - 1;
  const content = contentLines(received).flatMap((line) => wordWrap(peerText(line), width - INDENT.length));
  const head = about.filter((part) => part !== null).join("  ");
  return [...layOut(peerText(head), width), ...content.map((line) => INDENT + line)];
}
