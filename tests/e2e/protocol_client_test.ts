/**
 * Shows that docs/protocol.md is enough to write a client: protocol_client.ts imports nothing of the project, agrees
 * with the vectors, and delivers a message through a running server.
 */
import { assert, assertEquals } from "@std/assert";
import proofVectors from "../vectors/proof.json" with { type: "json" };
import contextVectors from "../vectors/context.json" with { type: "json" };
import registrationVectors from "../vectors/registration.json" with { type: "json" };
import { BOOTSTRAP_SECRET, SOON_MS, startServerHere, tempFolder, within } from "../support/process.ts";
import {
  call,
  canonicalString,
  Client,
  contextOf,
  expectStatus,
  privateKeyOf,
  registrationMessage,
  sha256,
  signText,
} from "./protocol_client.ts";

Deno.test("the client written from the document imports nothing of the project", async () => {
  const text = await Deno.readTextFile(new URL("protocol_client.ts", import.meta.url));
  const imports = [...text.matchAll(/\bfrom "([^"]+)"|\bimport\("([^"]+)"\)/g)].map(([, path]) => path);
  assertEquals(imports, ["node:crypto", "node:http", "node:stream"]);
});

Deno.test("the client written from the document agrees with the registration vectors", () => {
  const key = privateKeyOf(registrationVectors.agentKey);
  for (const { name, input, message, signature } of registrationVectors.valid) {
    assertEquals(registrationMessage(input), message, name);
    assertEquals(signText(key, message), signature, name);
  }
});

Deno.test("the client written from the document agrees with the proof vectors", () => {
  const key = privateKeyOf(proofVectors.agentKey);
  for (const { name, request, canonical, proof } of proofVectors.valid) {
    assertEquals(sha256(request.body), request.bodySha256, name);
    assertEquals(canonicalString(request), canonical, name);
    assertEquals(signText(key, canonical), proof, name);
  }
});

Deno.test("the client written from the document agrees with the context vectors", () => {
  for (const { name, headers, context, target } of contextVectors.valid) {
    assertEquals(contextOf(headers as [string, string][]), context, name);
    assertEquals(`/hooks/agent?ctx=${sha256(context)}`, target, name);
  }
});

Deno.test("the client written from the document delivers a message and reads its receipt", async () => {
  await using folder = await tempFolder();
  await using server = await startServerHere({ folder: folder.path });
  const client = await Client.discover(server.address);

  const bootstrap = await call("POST", `${client.registryUrl}/v1/admin/bootstrap`, {
    "x-bootstrap-secret": BOOTSTRAP_SECRET,
  });
  const ada = expectStatus<{ apiKey: { token: string } }>(bootstrap, 201).apiKey.token;
  const invite = await call("POST", `${client.registryUrl}/v1/invites`, { Authorization: `Bearer ${ada}` }, "{}");
  const bob = await client.redeem(expectStatus<{ invite: { code: string } }>(invite, 201).invite.code, "Bob");
  const alpha = await client.register(ada, "alpha");
  const beta = await client.register(bob, "beta");

  const initiator = await client.connect(alpha);
  const recipient = await client.connect(beta);
  try {
    const started = await client.signed(alpha, "POST", "/pair/start", {
      initiatorProfile: { agentName: "alpha", humanName: "Ada" },
    });
    const { ticket } = expectStatus<{ ticket: string }>(started, 200);
    assert(ticket.startsWith("svcpair1_"));
    const confirmed = await client.signed(beta, "POST", "/pair/confirm", {
      ticket,
      responderProfile: { agentName: "beta", humanName: "Bob" },
    });
    assertEquals(expectStatus<{ initiatorAgentDid: string }>(confirmed, 201).initiatorAgentDid, alpha.did);
    const paired = await within(SOON_MS, "the paired frame", initiator.next("paired"));
    assertEquals([paired.peerAgentDid, paired.profile.agentName], [beta.did, "beta"]);

    const sent = await client.send(alpha, beta.did, { message: "hello" });
    const { delivered, requestId } = expectStatus<{ delivered: boolean; requestId: string }>(sent, 202);
    assertEquals([delivered, requestId], [true, sent.requestId]);
    const message = await within(SOON_MS, "the message", recipient.next("deliver"));
    assertEquals([message.requestId, message.fromAgentDid, message.toAgentDid], [requestId, alpha.did, beta.did]);
    assertEquals(message.identity.agentDid, alpha.did);
    const lines = ["[Svc Identity]", `agentDid: ${alpha.did}`, `ownerDid: ${message.identity.ownerDid}`];
    lines.push(`issuer: ${client.registryUrl}`, `aitJti: ${message.identity.aitJti}`, "", "hello");
    assertEquals(message.payload.message, lines.join("\n"));

    const answer = await client.send(beta, alpha.did, { message: "hello too" }, {
      "X-Svc-Conversation-Id": "c-1",
      "X-Svc-In-Reply-To": requestId,
      "X-Svc-Auto": "1",
    });
    expectStatus(answer, 202);
    const reply = await within(SOON_MS, "the reply", initiator.next("deliver"));
    assertEquals([reply.fromAgentDid, reply.conversationId, reply.inReplyTo, reply.auto], [
      beta.did,
      "c-1",
      requestId,
      true,
    ]);

    const path = "/v1/relay/delivery-receipts";
    const submitted = await client.signed(beta, "POST", path, {
      requestId,
      recipientAgentDid: beta.did,
      senderAgentDid: alpha.did,
      status: "processed_by_svc",
      timestamp: new Date().toISOString(),
    });
    expectStatus(submitted, 201);
    const query = new URLSearchParams({ requestId, recipientAgentDid: beta.did });
    const read = await client.signed(alpha, "GET", `${path}?${query}`);
    const { receipts } = expectStatus<{ receipts: { status: string }[] }>(read, 200);
    assertEquals(receipts.map(({ status }) => status), ["processed_by_svc"]);
  } finally {
    initiator.close();
    recipient.close();
  }
});
