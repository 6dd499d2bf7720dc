/** Every attack that a claim of docs/security.md may name. */
import { ISSUER_ATTACKS } from "./hostile_issuer.ts";
import { ANSWER_ATTACKS, FRAME_ATTACKS } from "./hostile_proxy.ts";

/** Attacks that are tried within the test's process: the test file, and the title of the test. */
export const WITHIN_THE_PROCESS: Readonly<Record<string, readonly [file: string, title: string]>> = {
  replay_at_any_later_time: [
    "tests/cli/connector/proof_test.ts",
    "a proof hands over one message, at any later time, after a restart, and under no other ID",
  ],
  late_and_early_messages: ["tests/cli/connector/proof_test.ts", "a message counts by the time at which it was signed"],
  proof_of_another_route: [
    "tests/cli/connector/proof_test.ts",
    "headers that no context signs are dropped, and nothing of another route is a message",
  ],
  token_that_is_not_genuine: [
    "tests/cli/connector/proof_test.ts",
    "a token is genuine with a key that its registry publishes, also a retired one, and while it is valid",
  ],
  reordered_messages: [
    "tests/cli/connector/proof_test.ts",
    "messages that a relay reorders are all handed over, each once",
  ],
  lost_memory: [
    "tests/cli/connector/proof_test.ts",
    "a new store beside known keys refuses what may have been handed over before",
  ],
  second_key_of_a_contact: [
    "tests/cli/connector/proof_test.ts",
    "the first message of a contact pins its key, and a second key of the registry is refused",
  ],
  second_key_of_a_ticket_peer: [
    "tests/cli/connector/pins_test.ts",
    "a key that a ticket proved is replaced by nothing",
  ],
  withheld_revocation: [
    "tests/cli/connector/proof_test.ts",
    "a revocation ends a sender whom the relay still delivers, and a reissue only what was signed later",
  ],
  self_vouched_token: [
    "tests/cli/connector/proof_test.ts",
    "a deleted peer of a ticket cannot vouch for itself in the name of another registry of its authority",
  ],
  words_of_another_server: [
    "tests/cli/connector/two_servers_test.ts",
    "no text of another server passes for words of svc, and an answer that is none of the protocol is no pair",
  ],
  registry_out_of_reach: [
    "tests/cli/connector/proof_test.ts",
    "without a registry for a day the link is closed, and messages wait until it answers",
  ],
  changed_message_of_a_contact: [
    "tests/cli/connector/proof_test.ts",
    "a message that a relay changed is refused, stored nowhere, and a genuine one follows",
  ],
  contact_as_ticket_peer: [
    "tests/cli/connector/pins_test.ts",
    "a relay that lists anything else leaves a contact, and the ticket stays open",
  ],
  removed_peer_listed_again: [
    "tests/cli/connector/pins_test.ts",
    "a removed peer stays removed with any list of the relay, until another ticket",
  ],
  search_of_the_store: [
    "tests/e2e/sealed_test.ts",
    "store, journal and log of a server hold no text of a message between peers of a ticket, sent or queued",
  ],
  search_of_the_traffic: [
    "tests/cli/connector/seal_test.ts",
    "nothing of a message between peers of a ticket can be read at the proxy",
  ],
  ciphertext_without_the_key: [
    "tests/cli/connector/seal_test.ts",
    "a sealed body of a capture opens with no other key",
  ],
  plain_message_of_a_ticket_peer: [
    "tests/cli/connector/seal_test.ts",
    "of a peer of a ticket only what is sealed to this message is taken",
  ],
  ciphertext_of_another: [
    "tests/cli/connector/seal_test.ts",
    "of a peer of a ticket only what is sealed to this message is taken",
  ],
  said_receipt: [
    "tests/cli/connector/signed_receipts_test.ts",
    "the word of a relay that a ticket peer has processed a message changes nothing",
  ],
  identity_of_another_authority: [
    "tests/proxy/federation/visitors_test.ts",
    "a registry speaks for no agent of another one, also with the same ID, and shares nothing with it",
  ],
  list_of_another_authority: [
    "tests/proxy/federation/issuers_test.ts",
    "what an issuer said of agents of another authority does not count",
  ],
  list_that_shrinks: [
    "tests/proxy/federation/issuers_test.ts",
    "a list that shrinks, a 404 after a list, and a list of another issuer keep the newest one that was seen",
  ],
  name_inside_the_network: [
    "tests/proxy/federation/issuers_test.ts",
    "a registry with any address inside a network is not called, unless the operator allows it",
  ],
  ticket_with_many_registries: [
    "tests/proxy/federation/visitors_test.ts",
    "a ticket lets this server ask at most three issuers",
  ],
  visitor_without_a_pair: [
    "tests/proxy/federation/visitors_test.ts",
    "an agent of another registry pairs with a ticket, writes, and is answered at its own proxy only",
  ],
  visit_token_at_another_server: [
    "tests/proxy/federation/visitors_test.ts",
    "a visit token counts for one agent, one identity token, one proxy and five minutes",
  ],
  routes_of_local_agents: [
    "tests/proxy/federation/visitors_test.ts",
    "a visiting agent may send, ask for its receipts and deliveries, and end its pair, and nothing else",
  ],
  access_token_abroad: [
    "tests/cli/connector/two_servers_test.ts",
    "no access token of one server reaches the other",
  ],
};

/** The names of all attacks. */
export const ATTACKS: ReadonlySet<string> = new Set([
  ...[FRAME_ATTACKS, ANSWER_ATTACKS, WITHIN_THE_PROCESS].flatMap((table) => Object.keys(table)),
  ...ISSUER_ATTACKS,
]);
