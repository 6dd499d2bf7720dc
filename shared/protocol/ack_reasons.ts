/**
 * Why connectors refuse messages. This is not part of frames.ts, because the command that explains codes would then
 * load the parsers of frames too.
 */

const AGAIN = "Send it again with a new signature.";
const LATER = "Send it again later, or with Prefer: respond-async, which keeps it until it can be taken.";
const NOT_GENUINE = "Send it again. If that happens again, the proxy between the two agents changes messages.";

export const ACK_REASONS = {
  wrong_recipient: { when: "the message is for another agent than the one that got it", fix: NOT_GENUINE },
  not_a_peer: { when: "the recipient knows no such peer, or has removed it", fix: "Pair again, with a new ticket." },
  blocked: {
    when: "the recipient does not accept your messages",
    fix: "The person there has blocked this agent. Only that person can end it, with svc peers unblock.",
  },
  proof_invalid: { when: "the message is not what its sender signed", fix: NOT_GENUINE },
  proof_too_old: { when: "the message was signed over 8 days ago, or before the recipient's memory", fix: AGAIN },
  proof_ahead: { when: "the message was signed more than a day ahead", fix: "Correct the clock of this machine." },
  replayed: { when: "the recipient has another message with the same proof", fix: AGAIN },
  key_mismatch: {
    when: "the sender has another key than the one that the recipient knows of it",
    fix: "An agent keeps its key. If you made the agent again, pair it again; else the registry is not to be trusted.",
  },
  pins_full: {
    when: "the recipient knows the keys of as many agents as it keeps",
    fix: "Ask its person to remove contacts, or pair with a ticket.",
  },
  sender_revoked: { when: "the registry has revoked the sender", fix: "Reissue the token, or create a new agent." },
  seal_required: {
    when: "the message is not sealed, and the recipient takes only sealed ones of a peer that it paired by ticket",
    fix: "Send it with svc or its connector. For a program of your own, pair again with a plain ticket.",
  },
  seal_invalid: {
    when: "the sealed message does not open",
    fix: "Send it again. If that happens again, pair again, with a new ticket.",
  },
  peer_unconfirmed: {
    when: "no ticket of the two is confirmed, and the message is sealed or the recipient takes no contacts",
    fix: "Pair again, with a new ticket.",
  },
  payload_invalid: {
    when: "the payload is not JSON within the bounds",
    fix: "Send JSON of at most 64 levels with one member message at its top level.",
  },
  inbox_full: { when: "the recipient's inbox is full", fix: LATER },
  store_failed: { when: "the recipient could not store the message", fix: LATER },
  failed: { when: "the recipient failed", fix: LATER },
} as const;
/** A reason of the table. Connectors of other programs may send other reasons. */
export type AckReason = keyof typeof ACK_REASONS;
