/**
 * Shows the signed context of a message (D-140): the vectors, that two sets of bound headers never share a text, and that
 * hostile headers cost little.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { ContextError, contextOf, contextText, messageTarget } from "../../../shared/protocol/message_context.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { steps } from "../../support/steps.ts";
import { vectors } from "../../support/vectors.ts";
import { codePoints } from "./arbitraries.ts";

const { valid, invalid } = vectors("context");
const ENOUGH = { "content-type": "application/json", "x-request-id": "request-1" };

Deno.test("the context and the target of a message agree with the valid vectors", async (t) => {
  assertEquals(valid.length, 7);
  await steps(t, valid, async ({ headers, context, target }) => {
    for (const given of [headers, new Headers(headers), Object.fromEntries(headers)]) {
      assertEquals([contextText(given), await messageTarget(given)], [context, target]);
    }
    assertEquals(`/hooks/agent?ctx=${contextOf(target)}`, target);
  });
});

Deno.test("the context refuses the invalid vectors", async (t) => {
  assertEquals(invalid.length, 8);
  await steps(t, invalid, ({ headers }) => {
    for (const given of [headers, new Headers(headers), Object.fromEntries(headers)]) {
      assertThrows(() => contextText(given), ContextError);
    }
  });
});

Deno.test("the context refuses a header that HTTP cannot carry", async (t) => {
  const rows: [name: string, header: [string, string]][] = [
    ["a name with a colon", ["x-svc-a:b", "1"]],
    ["a name with a line feed", ["x-svc-a\nx-svc-b", "1"]],
    ["a name beyond ASCII", ["x-svc-é", "1"]],
    ["a value with a line feed", ["x-svc-a", "1\nx-svc-b:2"]],
    ["a value with a carriage return at its end", ["x-svc-a", "1\r"]],
    ["a value with a tab inside", ["x-svc-a", "1\t2"]],
    ["a value with a zero", ["x-svc-a", "1\u0000"]],
    ["a value that ends with a blank beyond ASCII", ["x-svc-a", "1\u00a0"]],
  ];
  for (const [name, header] of rows) {
    await t.step(name, () => void assertThrows(() => contextText([...Object.entries(ENOUGH), header]), ContextError));
  }
});

Deno.test("the context joins the values of a repeated header as HTTP does", () => {
  const headers: [string, string][] = [...Object.entries(ENOUGH), ["X-Svc-New", "1"], ["x-svc-new", " 2"]];
  assert(contextText(headers).endsWith("\nx-svc-new:1, 2"));
  assertEquals(contextText(new Headers(headers)), contextText(headers));
});

Deno.test("the context ignores the headers of the proof and every header without the prefix", () => {
  const names = [
    ...["timestamp", "nonce", "bodySha256", "proof", "access", "recipient", "authorization"] as const,
  ].map((name) => HEADERS[name]);
  for (const name of [...names, "Prefer", "Host", "X-Svcx", "xx-svc-a"]) {
    assertEquals(contextText({ ...ENOUGH, [name]: "é" }), contextText(ENOUGH), name);
  }
  for (const name of [HEADERS.conversationId, HEADERS.inReplyTo, HEADERS.auto, HEADERS.serviceId, "x-svc-"]) {
    assert(contextText({ ...ENOUGH, [name]: "1" }) !== contextText(ENOUGH), name);
  }
});

const nameArbitrary = fc.oneof(
  fc.constantFrom("x-svc-a", "x-svc-b", "x-svc-a-b", "x-svc-in-reply-to", "x-svc-auto"),
  fc.stringMatching(/^x-svc-[a-z0-9!#$%&'*+.^_`|~-]{1,12}$/),
);
const valueArbitrary = fc.stringMatching(/^[!-~](?:[ -~]{0,20}[!-~])?$/);
const headersArbitrary = fc.dictionary(nameArbitrary, valueArbitrary, { maxKeys: 8 })
  .map((more): Record<string, string> => ({ ...ENOUGH, ...more }));

Deno.test("the context is the same for the same bound headers only", () => {
  const moved = headersArbitrary.map((headers): [Record<string, string>, Record<string, string>] => {
    const [[name = "", value = ""] = []] = Object.entries(headers).filter((one) => one[0].startsWith("x-svc-"));
    const { [name]: _, ...rest } = headers;
    return [headers, name === "" ? headers : { ...rest, [`${name}${value[0]?.match(/[a-z]/)?.[0] ?? ""}`]: value }];
  });
  fc.assert(
    fc.property(fc.oneof(fc.tuple(headersArbitrary, headersArbitrary), moved), ([a, b]) => {
      const bound = (headers: Record<string, string>) =>
        JSON.stringify(Object.entries(headers).sort(([x], [y]) => x < y ? -1 : 1));
      assertEquals(contextText(a) === contextText(b), bound(a) === bound(b));
    }),
    { seed: 1, numRuns: 200 },
  );
});

Deno.test("the context does not depend on order, case or the blanks around a value", () => {
  fc.assert(
    fc.property(headersArbitrary, fc.infiniteStream(fc.nat()), (headers, random) => {
      const sent = Object.entries(headers).map(([name, value]): [string, string] => [
        [...name].map((letter) => (random.next().value ?? 0) % 2 ? letter.toUpperCase() : letter).join(""),
        ["", " ", "\t"][(random.next().value ?? 0) % 3] + value + " ",
      ]);
      sent.sort(() => (random.next().value ?? 0) % 2 ? 1 : -1);
      assertEquals(contextText(sent), contextText(headers));
      assertEquals(contextText(new Headers(sent)), contextText(headers));
    }),
    { seed: 1, numRuns: 100 },
  );
});

Deno.test("the context throws a context error only", () => {
  const text = fc.oneof(fc.string(), codePoints, fc.constantFrom("x-svc-a", "x-svc-\u2028", "\r\n"));
  const pairs = fc.array(fc.tuple(fc.oneof(text, nameArbitrary), text), { maxLength: 30 });
  fc.assert(
    fc.property(pairs, fc.string(), (headers, target) => {
      for (const run of [() => contextText([...Object.entries(ENOUGH), ...headers]), () => contextOf(target)]) {
        try {
          run();
        } catch (error) {
          assert(error instanceof ContextError, `${error}`);
        }
      }
    }),
    { seed: 1, numRuns: 200 },
  );
});

Deno.test("the context of hostile headers reads no more than one line over the limit", () => {
  let read = 0;
  function* endless(): Generator<[string, string]> {
    while (true) {
      read++;
      yield [`x-svc-${read}`, "v"];
    }
  }
  assertThrows(() => contextText(endless()), ContextError);
  assertEquals(read, LIMITS.contextLines + 1);
  const megabyte = " ".repeat(1_000_000);
  for (const value of [megabyte, `x${megabyte}x`, "x".repeat(1_000_000), `${megabyte}\u00e9`]) {
    const many = Array.from({ length: 100 }, (): [string, string] => ["x-svc-a", value]);
    assertThrows(() => contextText([...Object.entries(ENOUGH), ...many]), ContextError);
  }
});

Deno.test("a context up to each limit counts, and one beyond it does not", () => {
  const text = (more: Record<string, string>) => contextText({ ...ENOUGH, ...more });
  const lines = (count: number) => Object.fromEntries(Array.from({ length: count - 2 }, (_, i) => [`x-svc-${i}`, "v"]));
  const wide = Object.fromEntries("abc".split("").map((name) => [`x-svc-${name}`, "v".repeat(1_000)]));
  const rest = LIMITS.contextBytes - text({ ...wide, "x-svc-d": "v" }).length + 1;
  const rows: [atLimit: () => unknown, over: () => unknown][] = [
    [() => text(lines(LIMITS.contextLines)), () => text(lines(LIMITS.contextLines + 1))],
    [
      () => text({ "x-svc-a": "v".repeat(LIMITS.contextValueLength) }),
      () => text({ "x-svc-a": "v".repeat(LIMITS.contextValueLength + 1) }),
    ],
    [() => text({ ...wide, "x-svc-d": "v".repeat(rest) }), () => text({ ...wide, "x-svc-d": "v".repeat(rest + 1) })],
    [
      () => contextOf(`/?${"x".repeat(LIMITS.queryLength)}`),
      () => contextOf(`/?${"x".repeat(LIMITS.queryLength + 1)}`),
    ],
  ];
  for (const [atLimit, over] of rows) {
    atLimit();
    assertThrows(over, ContextError);
  }
});

Deno.test("the context hash of a target is the value of its only ctx", async (t) => {
  const hash = "ShiPK_UF73Ks2spfs691UWYTTHAGrsIpAgjlo2FviZM";
  const rows: [target: string, expected: string | null][] = [
    ["/hooks/agent", null],
    ["/hooks/agent?", null],
    ["/hooks/agent?x=1", null],
    ["/hooks/agent?ctxx=1&xctx=2", null],
    [`/hooks/agent?ctx=${hash}`, hash],
    [`/hooks/agent?x=1&ctx=${hash}&y`, hash],
    [`/hooks/agent?%63tx=%53${hash.slice(1)}`, hash],
    ["/hooks/agent?ctx", ""],
    ["/hooks/agent?ctx=", ""],
  ];
  for (const [target, expected] of rows) await t.step(target, () => assertEquals(contextOf(target), expected));
  const refused = [`?ctx=${hash}&ctx=${hash}`, "?ctx&ctx", `?ctx=1&%63tx=1`, `?${"x".repeat(LIMITS.queryLength + 1)}`];
  for (const query of refused) {
    await t.step(query.slice(0, 40), () => void assertThrows(() => contextOf(`/hooks/agent${query}`), ContextError));
  }
});
