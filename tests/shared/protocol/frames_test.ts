/**
 * Shows the relay frames (docs/protocol.md#relay-frames): an encoded frame is decoded with an unchanged payload text.
 * Any other text is a FrameError, and each side sends only its own frames.
 */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import fc from "fast-check";
import {
  CLOSE,
  type ConnectorFrame,
  decodeFrame,
  type DeliverAckFrame,
  type DeliverFrame,
  encodeFrame,
  type Frame,
  FrameError,
  FRAMES,
  type ProxyFrame,
} from "../../../shared/protocol/frames.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { steps } from "../../support/steps.ts";
import { vectors } from "../../support/vectors.ts";
import { agentDid, anyText, codePoints as words, humanDid, jsonText, ulid } from "./arbitraries.ts";

const RUNS = { seed: 1, numRuns: 300 };
/** Decodes a frame when the side is known only at run time. */
const decode = decodeFrame as (text: string, from: "proxy" | "connector") => Frame;
const ID = "01KHYQ5H00AAAAAAAAAAAAAAAA";
const AGENT = `did:svc:registry.example.test:agent:${ID}`;
const HUMAN = `did:svc:registry.example.test:human:${ID}`;

Deno.test("the valid vectors are frames of their sender, with the payload unchanged, and the invalid ones are none", () => {
  const { valid, invalid } = vectors("frames");
  assertEquals(new Set(valid.map(({ text }) => JSON.parse(text).type)), new Set(Object.keys(FRAMES)));
  for (const { name, from, text, payload } of valid) {
    const frame = decode(text, from);
    assertEquals({ ...frame }, { ...JSON.parse(text), ...payload === undefined ? {} : { payload } }, name);
    if (payload !== undefined) assertEquals(encodeFrame(frame), text, name);
  }
  const said: Record<string, RegExp> = {
    json: /is not JSON$/,
    object: /is not a JSON object$/,
    type: /has an unknown type$/,
  };
  for (const { name, from, text, reason } of invalid) {
    const { message } = assertThrows(() => decode(text, from), FrameError, undefined, name);
    assertMatch(message, said[reason] ?? new RegExp(`^The frame's ${reason} is `), name);
  }
});

const HEAD = { v: 1, id: ID, ts: "2026-02-21T00:00:00.000Z" } as const;
const DELIVER: DeliverFrame = {
  ...HEAD,
  type: "deliver",
  requestId: "req:0001",
  fromAgentDid: AGENT,
  toAgentDid: AGENT,
  identity: { agentDid: AGENT, ownerDid: HUMAN, issuer: "https://registry.example.test", aitJti: ID, name: "alpha" },
  contentType: "application/json",
  attempt: 1,
  payload: '{"message":"hi"}',
};
const ACK: ConnectorFrame = { ...HEAD, type: "deliver_ack", ackId: ID, accepted: true };
const HEARTBEAT: ConnectorFrame = { ...HEAD, type: "heartbeat" };
const HEARTBEAT_ACK: ConnectorFrame = { ...HEAD, type: "heartbeat_ack", ackId: ID };
const TOLD: ProxyFrame = {
  ...HEAD,
  type: "delivery",
  requestId: "request-1",
  recipientAgentDid: AGENT,
  state: "delivered",
  at: "2026-02-21T00:00:00.000Z",
};
const PAIRED: ProxyFrame = {
  ...HEAD,
  type: "paired",
  peerAgentDid: AGENT,
  profile: { agentName: "beta", humanName: "Ada" },
};
const REVOKED: ProxyFrame = { ...HEAD, type: "revoked", reason: "agent_deleted" };

const head = {
  v: fc.constant(1 as const),
  id: ulid,
  ts: fc.integer({ min: 946_684_800_000, max: 253_402_300_799_999 }).map((ms) => new Date(ms).toISOString()),
};
const deliver: fc.Arbitrary<DeliverFrame> = fc.record({
  ...head,
  type: fc.constant("deliver" as const),
  requestId: fc.stringMatching(/^[A-Za-z0-9._:-]{8,128}$/),
  fromAgentDid: agentDid,
  toAgentDid: agentDid,
  identity: fc.record({ agentDid, ownerDid: humanDid, issuer: words, aitJti: ulid, name: words }),
  contentType: words,
  attempt: fc.integer({ min: 1, max: 1000 }),
  conversationId: fc.stringMatching(/^[!-+\--~]{1,128}$/),
  inReplyTo: fc.stringMatching(/^[A-Za-z0-9._:-]{8,128}$/),
  auto: fc.constant(true as const),
  payload: jsonText.map((text) => text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "")),
}, {
  requiredKeys: [
    "v",
    "id",
    "ts",
    "type",
    "requestId",
    "fromAgentDid",
    "toAgentDid",
    "identity",
    "contentType",
    "attempt",
    "payload",
  ],
});
const heartbeat = fc.record({ ...head, type: fc.constant("heartbeat" as const) });
const heartbeatAck = fc.record({ ...head, type: fc.constant("heartbeat_ack" as const), ackId: ulid });
const fromProxy: fc.Arbitrary<ProxyFrame> = fc.oneof(
  deliver,
  heartbeat,
  heartbeatAck,
  fc.record({
    ...head,
    type: fc.constant("paired" as const),
    peerAgentDid: agentDid,
    profile: fc.record({ agentName: words, humanName: words }),
  }),
  fc.record({ ...head, type: fc.constant("revoked" as const), reason: words }),
);
const fromConnector: fc.Arbitrary<ConnectorFrame> = fc.oneof(
  fc.record(
    { ...head, type: fc.constant("deliver_ack" as const), ackId: ulid, accepted: fc.boolean(), reason: words },
    {
      requiredKeys: ["v", "id", "ts", "type", "ackId", "accepted"],
    },
  ),
  heartbeat,
  heartbeatAck,
);

Deno.test("frame decoding returns the frame that the proxy encoded", () => {
  fc.assert(fc.property(fromProxy, (frame) => assertEquals(decodeFrame(encodeFrame(frame), "proxy"), frame)), RUNS);
});

Deno.test("frame decoding returns the frame that the connector encoded", () => {
  fc.assert(
    fc.property(fromConnector, (frame) => assertEquals(decodeFrame(encodeFrame(frame), "connector"), frame)),
    RUNS,
  );
});

Deno.test("frame encoding writes one JSON object whose last member is the unchanged payload", () => {
  fc.assert(
    fc.property(deliver, (frame) => {
      const text = encodeFrame(frame);
      assert(text.endsWith(`,"payload":${frame.payload}}`));
      const { payload, ...rest } = JSON.parse(text) as DeliverFrame;
      assertEquals(JSON.stringify(payload), JSON.stringify(JSON.parse(frame.payload)));
      assertEquals({ ...rest, payload: frame.payload }, frame);
      assertEquals(Object.keys(JSON.parse(text)).at(-1), "payload");
    }),
    RUNS,
  );
});

Deno.test("frame decoding keeps the payload's text", async (t) => {
  const payloads = [
    "null",
    "12345678901234567890",
    "1.0",
    "1e400",
    '"\\ud800"',
    '{"__proto__":{"x":1},"constructor":2}',
    '{"b":1,"a":2,"b":3}',
    '{ "a" :\n[ 1 ,2 ] }',
    '{"payload":{"payload":"}"}}',
    '"},\\"payload\\":{"',
    '{"type":"revoked","v":2}',
    '"\u2028👋"',
  ];
  await steps(t, payloads, (payload) => {
    const frame = decodeFrame(encodeFrame({ ...DELIVER, payload }), "proxy");
    assertEquals(frame.type === "deliver" && frame.payload, payload);
  });
  assertEquals(Object.hasOwn(Object.prototype, "x"), false);
});

Deno.test("frame decoding reads a deliver frame in any order with its payload last", () => {
  const { payload, ...rest } = DELIVER;
  const reversed = Object.fromEntries(Object.entries(rest).reverse());
  const text = `{${JSON.stringify(reversed).slice(1, -1)} , "paylo\\u0061d" :  ${payload} \n}`;
  assertEquals(decodeFrame(text, "proxy"), { ...DELIVER, payload: `  ${payload} \n` });
});

Deno.test("frame decoding ignores unknown members", () => {
  for (const [frame, from] of [[ACK, "connector"], [REVOKED, "proxy"]] as const) {
    const read = decode(JSON.stringify({ ...frame, more: { x: 1 } }), from);
    assertEquals({ ...read, more: undefined }, { ...frame, more: undefined });
  }
});

Deno.test("frame decoding accepts from each side its own frames only", async (t) => {
  const rows: [frame: Frame, proxy: boolean, connector: boolean][] = [
    [DELIVER, true, false],
    [ACK, false, true],
    [HEARTBEAT, true, true],
    [HEARTBEAT_ACK, true, true],
    [PAIRED, true, false],
    [TOLD, true, false],
    [REVOKED, true, false],
  ];
  assertEquals(rows.map(([{ type }]) => type).sort(), Object.keys(FRAMES).sort());
  for (const [frame, proxy, connector] of rows) {
    await t.step(frame.type, () => {
      const text = encodeFrame(frame);
      if (proxy) assertEquals(decodeFrame(text, "proxy").type, frame.type);
      else assertThrows(() => decodeFrame(text, "proxy"), FrameError);
      if (connector) assertEquals(decodeFrame(text, "connector").type, frame.type);
      else assertThrows(() => decodeFrame(text, "connector"), FrameError);
    });
  }
});

Deno.test("frame decoding refuses malformed members that no vector has", async (t) => {
  const rows: [name: string, frame: Frame, change: Record<string, unknown>][] = [
    ["of type __proto__", HEARTBEAT, { type: "__proto__" }],
    ["whose ackId is not a ULID", ACK, { ackId: "x" }],
    ["whose reason is null", ACK, { reason: null }],
    ["of a heartbeat's ack without ackId", HEARTBEAT_ACK, { ackId: undefined }],
    ["without requestId", DELIVER, { requestId: undefined }],
    ["without fromAgentDid", DELIVER, { fromAgentDid: undefined }],
    ["whose identity is null", DELIVER, { identity: null }],
    ["whose identity's owner is an agent", DELIVER, { identity: { ...DELIVER.identity, ownerDid: AGENT } }],
    ["whose identity's name is a number", DELIVER, { identity: { ...DELIVER.identity, name: 1 } }],
    ["whose attempt is text", DELIVER, { attempt: "1" }],
    ["whose conversationId is null", DELIVER, { conversationId: null }],
    ["whose inReplyTo is null", DELIVER, { inReplyTo: null }],
    ["whose auto is a text", DELIVER, { auto: "1" }],
    ["of a delivery without time", TOLD, { at: undefined }],
    ["of a pair with a human", PAIRED, { peerAgentDid: HUMAN }],
    ["of a pair without profile", PAIRED, { profile: undefined }],
    ["of a revocation without reason", REVOKED, { reason: undefined }],
  ];
  await steps(t, rows, ([, frame, change]) => {
    const text = `${JSON.stringify({ ...frame, payload: undefined, ...change }).slice(0, -1)},"payload":1}`;
    assertThrows(() => decodeFrame(text, "proxy"), FrameError);
    assertThrows(() => decodeFrame(text, "connector"), FrameError);
  });
});

Deno.test("frame decoding throws a frame error only", () => {
  const mutated = fc.tuple(
    fc.oneof<fc.Arbitrary<Frame>[]>(fromProxy, fromConnector),
    jsonText,
    fc.nat(),
    fc.nat(),
    anyText,
  )
    .map(([frame, value, which, at, inserted]) => {
      const names = Object.keys(frame);
      const text = JSON.stringify({ ...frame, [names[which % names.length] ?? "v"]: JSON.parse(value) });
      return at % 2 ? text : text.slice(0, at % text.length) + inserted + text.slice(at % text.length);
    });
  const typed = jsonText.map((value) => `{"v":1,"type":"deliver","id":"${ID}","payload":${value}}`);
  const types = Object.keys(FRAMES);
  const shaped = fc.tuple(fc.constantFrom(...types), fc.dictionary(fc.string(), fc.jsonValue()))
    .map(([type, members]) => JSON.stringify({ ...members, v: 1, type, id: ID, ts: HEAD.ts }));
  const text = fc.oneof(anyText, jsonText, fc.json(), mutated, typed, shaped);
  fc.assert(
    fc.property(text, fc.constantFrom("proxy" as const, "connector" as const), (json, from) => {
      try {
        const { type } = decode(json, from);
        assert(FRAMES[type].from === from || FRAMES[type].from === "both");
      } catch (error) {
        assert(error instanceof FrameError, `${error}`);
      }
    }),
    { seed: 1, numRuns: 500 },
  );
});

Deno.test("frame decoding handles a frame that is nested 100,000 deep", () => {
  const payload = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const frame = decodeFrame(encodeFrame({ ...DELIVER, payload }), "proxy");
  assert(frame.type === "deliver" && frame.payload === payload);
  assertThrows(() => decodeFrame(payload, "connector"), FrameError);
});

Deno.test("frame decoding accepts 1 MiB, and refuses one byte more", () => {
  const room = LIMITS.frameBytes - encodeFrame({ ...DELIVER, payload: '""' }).length;
  assertEquals(LIMITS.frameBytes, 1_048_576);
  assertEquals(decodeFrame(encodeFrame({ ...DELIVER, payload: `"${"x".repeat(room)}"` }), "proxy").type, "deliver");
  const over = encodeFrame({ ...DELIVER, payload: `"${"x".repeat(room + 1)}"` });
  assertThrows(() => decodeFrame(over, "proxy"), FrameError, "1048576 bytes");
});

Deno.test("frame decoding accepts 8 KiB from a connector, and refuses one byte more", () => {
  const head = { v: 1, id: DELIVER.id, ts: DELIVER.ts, type: "heartbeat" };
  const padded = (bytes: number, fill = "x") => {
    const room = bytes - JSON.stringify({ ...head, pad: "" }).length;
    return JSON.stringify({ ...head, pad: fill.repeat(Math.ceil(room / new TextEncoder().encode(fill).length)) });
  };
  assertEquals(decodeFrame(padded(8_192), "connector").type, "heartbeat");
  assertEquals(decodeFrame(padded(8_193), "proxy").type, "heartbeat");
  assertThrows(() => decodeFrame(padded(8_193), "connector"), FrameError, "8192 bytes");
  assertThrows(() => decodeFrame(padded(8_193, "€"), "connector"), FrameError, "8192 bytes");
});

Deno.test("every frame of a connector fits its limit when each member is as long as it may be", () => {
  const ack: DeliverAckFrame = {
    ...{ v: 1, id: DELIVER.id, ts: DELIVER.ts, type: "deliver_ack", ackId: DELIVER.id, accepted: false },
    // The longest text in JSON: an escape of six characters for one character.
    reason: "\u0001".repeat(256),
  };
  assertEquals(decodeFrame(encodeFrame(ack), "connector"), ack);
});

Deno.test("frame decoding counts bytes of UTF-8, not characters", () => {
  const text = encodeFrame({ ...DELIVER, payload: `"${"€".repeat(400_000)}"` });
  assert(text.length < LIMITS.frameBytes && new TextEncoder().encode(text).length > LIMITS.frameBytes);
  assertThrows(() => decodeFrame(text, "proxy"), FrameError, "1048576 bytes");
});

Deno.test("CLOSE holds the close codes of the protocol", () => {
  assertEquals(CLOSE, {
    shuttingDown: 1001,
    misuse: 1008,
    tooLarge: 1009,
    tooSlow: 1013,
    notAuthorised: 4401,
    silent: 4408,
    replaced: 4409,
  });
});
