/**
 * Proof and payload of a message as bytes, for records that hold them in chunks. One value of the store is too small,
 * because an AIT together with the text that an identity block has replaced (`BodyEdit`) may exceed it. The bytes are a
 * line of JSON, then that text, then the payload.
 */
import { utf8Bytes, utf8Text } from "../../shared/protocol/base64url.ts";
import type { MessageProof } from "../../shared/protocol/message_proof.ts";
import type { Envelope, Message } from "../schema/records.ts";

const LINE_FEED = 0x0a;

/**
 * The first line. The text of `edit` follows without escapes, because they could double it beyond the size of a commit.
 */
type Head = Omit<MessageProof, "edit"> & { edit?: [offset: number, length: number, textBytes: number] };

/** Returns a message in two parts: the envelope, which a record holds, and the content, which is stored in chunks. */
export function splitMessage({ proof, payload, ...envelope }: Message): { envelope: Envelope; content: Uint8Array } {
  const { edit, ...rest } = proof;
  const text = edit?.[2] ?? "";
  const head: Head = edit === undefined ? rest : { ...rest, edit: [edit[0], edit[1], utf8Bytes(text).length] };
  return { envelope, content: utf8Bytes(`${JSON.stringify(head)}\n${text}${payload}`) };
}

export function joinMessage(envelope: Envelope, content: Uint8Array): Message {
  const at = content.indexOf(LINE_FEED);
  const { edit, ...rest } = JSON.parse(utf8Text(content.subarray(0, at))) as Head;
  const from = at + 1 + (edit?.[2] ?? 0);
  const text = utf8Text(content.subarray(at + 1, from));
  const proof: MessageProof = edit === undefined ? rest : { ...rest, edit: [edit[0], edit[1], text] };
  return { ...envelope, proof, payload: utf8Text(content.subarray(from)) };
}
