/** svc receipt verify: a receipt of the vectors and one of a running pair, offline on another machine, and each wrong part. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { signReceipt } from "../../../shared/protocol/receipt_token.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { vectors } from "../../support/vectors.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { Machine } from "../cli_world.ts";
import { type Check, failing, skipping } from "./checks.ts";

/** Another machine, with files for the command. */
async function stranger() {
  const machine = await Machine.open();
  const write = (name: string, content: unknown) => {
    machine.write(name, typeof content === "string" ? content : JSON.stringify(content));
    return machine.path(name);
  };
  const verify = async (...argv: string[]) => {
    const { code, stdout, stderr } = await machine.svc("--json", "receipt", "verify", ...argv);
    assertEquals(stderr, "");
    const result = JSON.parse(stdout) as { valid: boolean; checks: Check[]; receipt: { requestId: string } | null };
    assertEquals(code, result.valid ? 0 : 1);
    return result;
  };
  return { machine, write, verify, [Symbol.asyncDispose]: () => machine[Symbol.asyncDispose]() };
}

Deno.test("each receipt of the vectors verifies without a network, with its payload", async (t) => {
  await using other = await stranger();
  other.machine.fetch = () => Promise.reject(new Error("no network"));
  const { keys, ait, valid, invalid } = vectors("receipt");
  const keyFile = ["--key-document", other.write("keys.json", keys)];
  for (const { name, token: signed, payload, salt } of valid) {
    await t.step(name, async () => {
      const file = other.write("receipt.json", { signed, ait, ...(salt === null ? {} : { salt }) });
      const checksOf = async (text: string) =>
        (await other.verify(file, ...keyFile, "--payload", other.write("payload.json", text))).checks;
      for (const text of [payload, `${payload}\n`]) {
        const checks = await checksOf(text);
        assertEquals([failing(checks), skipping(checks)], [[], ["revocation"]]);
      }
      assertEquals(failing(await checksOf(`${payload} `)), ["payload"]);
    });
  }
  const steps: Record<string, string> = { malformed: "form" };
  for (const { name, token: signed, reason } of invalid) {
    await t.step(name, async () => {
      const { checks, receipt } = await other.verify(other.write("receipt.json", { signed, ait }), ...keyFile);
      assertEquals([failing(checks)[0], receipt], [steps[reason] ?? reason, null]);
    });
  }
});

Deno.test("one changed character in receipt, token, payload or salt fails at its step", async (t) => {
  await using other = await stranger();
  const { keys, ait, valid } = vectors("receipt");
  const sealed = valid.find(({ salt }) => salt !== null);
  assert(sealed);
  const { token: signed, payload, salt } = sealed;
  const row = { signed, ait, salt };
  const flip = (text: string, i: number) => text.slice(0, i) + (text[i] === "A" ? "B" : "A") + text.slice(i + 1);
  const cases: [what: string, row: unknown, payload: string, step: string][] = [
    ["the receipt's signature", { ...row, signed: flip(signed, signed.length - 40) }, payload, "signature"],
    ["the receipt's header", { ...row, signed: flip(signed, 2) }, payload, "header"],
    ["the token's signature", { ...row, ait: flip(ait, ait.length - 40) }, payload, "token signature"],
    ["the token's form", { ...row, ait: ait.slice(0, 40) }, payload, "token form"],
    ["the payload", row, flip(payload, 3), "payload"],
    ["the salt", { ...row, salt: flip(salt ?? "", 5) }, payload, "payload"],
    ["no salt", { signed, ait }, payload, "payload"],
  ];
  for (const [what, changed, text, step] of cases) {
    await t.step(what, async () => {
      const files = [other.write("receipt.json", changed), "--payload", other.write("payload.json", text)];
      const { checks } = await other.verify(...files, "--key-document", other.write("keys.json", keys));
      assertEquals(failing(checks), [step]);
    });
  }
});

/** A receipt that an agent signs for a message from another one. */
async function receiptOf(world: World, { agent, identity, keys }: TestAgent, more: object = {}) {
  const claims = {
    iss: agent.did,
    sub: "did:svc:registry.example.test:agent:01KHYQ5H00BBBBBBBBBBBBBBBB",
    jti: world.newId(),
    iat: unixSeconds(world.clock.now()),
    requestId: "request-1",
    nonce: "A".repeat(24),
    bodySha256: "A".repeat(43),
    status: "processed_by_svc" as const,
    ...more,
  };
  const { ait, privateKey } = identity;
  return { signed: await signReceipt(claims, { publicKey: keys.publicKey, privateKey }), ait };
}

Deno.test("a receipt is checked with the keys and the list of its registry", async (t) => {
  await using other = await stranger();
  const { world } = other.machine;
  const [b, c] = [await world.agent(), await world.agent()];
  const good = await receiptOf(world, b);
  const file = other.write("receipt.json", good);
  const fresh = await other.verify(file);
  assertEquals([fresh.valid, skipping(fresh.checks), fresh.receipt?.requestId], [true, ["payload"], "request-1"]);
  const { stdout } = await other.machine.svc("receipt", "verify", file);
  for (const part of ["✓ signature", "processed_by_svc", b.agent.did, "request-1"]) assertStringIncludes(stdout, part);
  const cases: [what: string, row: object, steps: string[]][] = [
    ["the token of another agent", { ...good, ait: c.identity.ait }, ["key", "recipient"]],
    ["in the name of another agent", await receiptOf(world, b, { iss: c.agent.did }), ["recipient"]],
    ["after the end of the token", await receiptOf(world, b, { iat: 4_000_000_000 }), ["time"]],
  ];
  for (const [what, row, steps] of cases) {
    await t.step(what, async () => {
      assertEquals(failing((await other.verify(other.write("receipt.json", row))).checks), steps);
    });
  }
  await t.step("of another registry", async () => {
    const { valid, ait } = vectors("receipt");
    const { checks } = await other.verify(other.write("receipt.json", { signed: valid[0]?.token, ait }));
    assert(["token issuer", "token key"].includes(failing(checks)[0] ?? ""));
  });
  await t.step("of an agent that was deleted later, and before", async () => {
    await world.clock.advance(2_000);
    await world.client.deleteAgent(b.owner.apiKey, b.agent.id);
    await world.clock.advance(2_000);
    assertEquals(failing((await other.verify(other.write("receipt.json", good))).checks), []);
    const late = await receiptOf(world, b);
    assertEquals(failing((await other.verify(other.write("receipt.json", late))).checks), ["revocation"]);
  });
});

Deno.test("the text that svc sent shows is compared as the payload that svc send made of it", async () => {
  await using other = await stranger();
  const agent = await other.machine.world.agent();
  const bodySha256 = await sha256('{"message":"Grüß \\"dich\\""}');
  const file = other.write("receipt.json", await receiptOf(other.machine.world, agent, { bodySha256 }));
  const failingWith = async (text: string) =>
    failing((await other.verify(file, "--payload", other.write("text.txt", text))).checks);
  assertEquals(await failingWith('Grüß "dich"\n'), []);
  assertEquals(await failingWith('Grüß "dic"\n'), ["payload"]);
});

Deno.test("a file that is no signed receipt is a usage error that says what to give", async (t) => {
  await using other = await stranger();
  const { valid, ait } = vectors("receipt");
  const row = { signed: valid[0]?.token, ait };
  const cases: [what: string, content: unknown, text: string][] = [
    ["no JSON", "x", "not JSON"],
    ["an unsigned one", { status: "processed_by_svc" }, "has no signed receipt"],
    ["a list of unsigned ones", { receipts: [{ status: "dead_lettered" }] }, "has no signed receipt"],
    ["two signed ones", { receipts: [row, row] }, "2 signed receipts"],
    ["over 64 KiB", `"${"x".repeat(65_536)}"`, "over 65536 bytes"],
  ];
  for (const [what, content, text] of cases) {
    await t.step(what, async () => {
      const { code, stderr } = await other.machine.svc("receipt", "verify", other.write("receipt.json", content));
      assertEquals(code, 2);
      assertStringIncludes(stderr, text);
    });
  }
  const one = other.write("receipt.json", { requestId: "x", receipts: [{ status: "dead_lettered" }, row] });
  const keys = other.write("keys.json", vectors("receipt").keys);
  assertEquals((await other.verify(one, "--key-document", keys)).valid, true);
  other.machine.stdin = JSON.stringify(row);
  assertEquals((await other.verify("-", "--key-document", keys)).valid, true);
  const { code, stderr } = await other.machine.svc("receipt", "verify", one, "--key-document", one);
  assertEquals(code, 2);
  assertStringIncludes(stderr, "not a key document");
  const missing = await other.machine.svc("receipt", "verify", "nofile.json");
  assertStringIncludes(
    missing.stderr,
    "CLI_USAGE: nofile.json cannot be read: No such file or directory.\n  Check the path",
  );
  const big = other.write("payload.json", "x".repeat(1024 * 1024 + 1));
  assertEquals((await other.machine.svc("receipt", "verify", one, "--key-document", keys, "--payload", big)).code, 2);
});
