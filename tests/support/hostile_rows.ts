/** Every attack that a claim of docs/security.md may name. */
import { ISSUER_ATTACKS } from "./hostile_issuer.ts";
import { ANSWER_ATTACKS, FRAME_ATTACKS } from "./hostile_proxy.ts";

/** Attacks that are tried within the test's process, by test file, and the title of the test. */
export const WITHIN_THE_PROCESS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "tests/cli/connector/proof_test.ts": {
    replay_at_any_later_time:
      "a proof hands over one message, at any later time, after a restart, and under no other ID",
    late_and_early_messages: "a message counts by the time at which it was signed",
    proof_of_another_route: "headers that no context signs are dropped, and nothing of another route is a message",
    token_that_is_not_genuine:
      "a token is genuine with a key that its registry publishes, also a retired one, and while it is valid",
    reordered_messages: "messages that a relay reorders are all handed over, each once",
    lost_memory: "a new store beside known keys refuses what may have been handed over before",
    second_key_of_a_contact: "the first message of a contact pins its key, and a second key of the registry is refused",
    withheld_revocation:
      "a revocation ends a sender whom the relay still delivers, and a reissue only what was signed later",
    self_vouched_token:
      "a deleted peer of a ticket cannot vouch for itself in the name of another registry of its authority",
    registry_out_of_reach: "without a registry for a day the link is closed, and messages wait until it answers",
    changed_message_of_a_contact:
      "a message that a relay changed is refused, stored nowhere, and a genuine one follows",
  },
  "tests/cli/connector/pins_test.ts": {
    second_key_of_a_ticket_peer: "a key that a ticket proved is replaced by nothing",
    contact_as_ticket_peer: "a relay that lists anything else leaves a contact, and the ticket stays open",
    removed_peer_listed_again: "a removed peer stays removed with any list of the relay, until another ticket",
  },
  "tests/cli/connector/two_servers_test.ts": {
    words_of_another_server:
      "no text of another server passes for words of svc, and an answer that is none of the protocol is no pair",
    access_token_abroad: "no access token of one server reaches the other",
  },
  "tests/e2e/sealed_test.ts": {
    search_of_the_store:
      "store, journal and log of a server hold no text of a message between peers of a ticket, sent or queued",
  },
  "tests/cli/connector/seal_test.ts": {
    search_of_the_traffic: "nothing of a message between peers of a ticket can be read at the proxy",
    ciphertext_without_the_key: "a sealed body of a capture opens with no other key",
    plain_message_of_a_ticket_peer: "of a peer of a ticket only what is sealed to this message is taken",
    ciphertext_of_another: "of a peer of a ticket only what is sealed to this message is taken",
  },
  "tests/cli/connector/signed_receipts_test.ts": {
    said_receipt: "the word of a relay that a ticket peer has processed a message changes nothing",
  },
  "tests/proxy/federation/visitors_test.ts": {
    identity_of_another_authority:
      "a registry speaks for no agent of another one, also with the same ID, and shares nothing with it",
    ticket_with_many_registries: "a ticket lets this server ask at most three issuers",
    visitor_without_a_pair:
      "an agent of another registry pairs with a ticket, writes, and is answered at its own proxy only",
    visit_token_at_another_server: "a visit token counts for one agent, one identity token, one proxy and five minutes",
    routes_of_local_agents:
      "a visiting agent may send, ask for its receipts and deliveries, and end its pair, and nothing else",
  },
  "tests/proxy/federation/issuers_test.ts": {
    list_of_another_authority: "what an issuer said of agents of another authority does not count",
    list_that_shrinks:
      "a list that shrinks, a 404 after a list, and a list of another issuer keep the newest one that was seen",
    name_inside_the_network:
      "a registry with any address inside a network is not called, unless the operator allows it",
  },
};

/** The names of all attacks. */
export const ATTACKS: ReadonlySet<string> = new Set([
  ...[FRAME_ATTACKS, ANSWER_ATTACKS, ...Object.values(WITHIN_THE_PROCESS)].flatMap((table) => Object.keys(table)),
  ...ISSUER_ATTACKS,
]);
