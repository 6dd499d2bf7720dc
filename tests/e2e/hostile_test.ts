/**
 * What holds against a relay that lies: real connectors dial a hostile relay in front of a real service. Each row ends with
 * a genuine message that gets through. Rows about days run next to a clock of their own in proof_test.ts of the connector.
 */
import { assert, assertEquals } from "@std/assert";
import { svcHere } from "../cli/connector/people.ts";
import { type AttackName, FRAME_ATTACKS, STRANGER } from "../support/hostile_proxy.ts";
import { eventually } from "../support/process.ts";
import { steps } from "../support/steps.ts";
import { IS_LONG } from "../support/trials.ts";
import { arrives, opened, pair, send, textOf, textsOf } from "./hostile_world.ts";

/**
 * How a connector answers the changed or invented frames of an attack; the last one has the ID of the genuine message. Any
 * other attack has one frame, and its proof is invalid.
 */
const ANSWERS: Readonly<Partial<Record<AttackName, readonly (string | null)[]>>> = {
  another_sender: ["not_a_peer"],
  another_recipient: ["wrong_recipient"],
  // Taken, and the relay's word changes nothing.
  identity: [null],
  attempt: [null],
  // Acknowledged as known and handed over once.
  replay: [null, null],
  replay_under_another_id: ["proof_invalid", null],
  replay_in_another_conversation: ["proof_invalid", null],
  flood: Array.from({ length: 500 }, () => "proof_invalid"),
};
const answersTo = (name: AttackName) => ANSWERS[name] ?? ["proof_invalid"];

/** In the gate a quarter of those that change a signed message, because proof_test.ts of the connector has all kinds. */
const FRAMES = (Object.keys(FRAME_ATTACKS) as (keyof typeof FRAME_ATTACKS)[])
  .filter((name, i) => IS_LONG || i % 4 === 0 || answersTo(name)[0] !== "proof_invalid");

Deno.test("what a relay that lies makes of pairings, messages, receipts, lists and the time", async (t) => {
  await using more = new AsyncDisposableStack();
  const all = await opened(more);

  await t.step("a pairing that the relay changed pins nothing", async (t) => {
    await steps(t, ["pair_key_stripped", "pair_key_forged", "pair_name"] as const, async (name) => {
      const { ticket } = await all.alpha.json("POST", "/v1/pair/start", {});
      await all.relay.arm(name);
      const answer = await all.beta.call("POST", "/v1/pair/confirm", { ticket });
      assertEquals([answer.status, (await answer.json()).error.code], [409, "CONNECTOR_PEER_KEY_MISMATCH"]);
      await all.relay.made(name);
      assertEquals((await all.beta.json("GET", "/v1/pair/peers")).peers, []);
    });
  });

  await pair(all);

  await t.step(
    "a message that the relay changed or invented reaches no runtime, and a genuine one follows",
    async (t) => {
      await arrives(all, (await send(all)).text);
      await steps(t, FRAMES, async (name) => {
        const expected = answersTo(name);
        await all.relay.arm(name);
        const attacked = await send(all);
        const acks = await all.relay.acks(name, expected.length);
        assertEquals(acks.map(({ reason }) => reason), expected);
        assertEquals(attacked.reason, expected.at(-1));
        const genuine = await send(all);
        assertEquals(genuine.reason, null);
        await arrives(all, genuine.text);
        const arrived = textsOf(all).filter((text) => text.endsWith(attacked.text));
        assertEquals(arrived.length, expected.at(-1) === null ? 1 : 0);
      });
      const texts = textsOf(all);
      assertEquals(new Set(texts).size, texts.length, "a message was handed over twice");
      assert(!texts.some((text) => text.includes("send money")));
      const identities = all.runtime.received.map(({ body }) => String(JSON.parse(body).message));
      assert(!identities.some((text) => text.includes("admin")));
    },
  );

  await t.step("a stranger in the list of peers takes no name", async () => {
    const read = () => JSON.parse(Deno.readTextFileSync(`${all.bob}/agents/beta/peers.json`));
    const { alpha } = read();
    await all.relay.arm("listed_stranger");
    // An unknown name makes the connector read the list again.
    assertEquals((await all.beta.call("POST", "/v1/outbound", { to: "gamma", text: "hi" })).status, 404);
    await all.relay.made("listed_stranger");
    await eventually(60_000, "the stranger is a contact", () => read()["contact-alpha"]?.did === STRANGER || undefined);
    assertEquals(read().alpha, alpha);
    await arrives(all, (await send(all)).text);
  });

  await t.step(
    "a receipt that the relay changed is shown as the proxy's word, and the state does not follow it",
    async (t) => {
      const receiptsOf = async (requestId: string) =>
        (await all.alpha.json("GET", `/v1/receipts?to=beta&requestId=${requestId}`)).receipts;
      const signed = async () => {
        const { requestId, text } = await send(all);
        await arrives(all, text);
        const state = async () =>
          (await all.alpha.json("GET", `/v1/outbound/${requestId}`)).state === "processed" || undefined;
        await eventually(60_000, "the receipt is signed", async () => {
          const [receipt] = await receiptsOf(requestId);
          return receipt?.verified === "signed" && await state() || undefined;
        });
        return requestId;
      };
      let requestId = await signed();
      await steps(
        t,
        ["receipt_stripped", "receipt_forged", "receipt_status", "receipt_of_another"] as const,
        async (name) => {
          // The connector reads receipts of its own accord too, and may get the changed one in place of this call.
          const receipt = await eventually(60_000, "the changed receipt is the answer", async () => {
            await all.relay.arm(name);
            const [receipt] = await receiptsOf(requestId);
            await all.relay.made(name);
            return receipt.verified === "signed" ? undefined : receipt;
          });
          assertEquals([receipt.verified, typeof receipt.problem], ["by-proxy", "string"]);
          requestId = await signed();
        },
      );
      await t.step("a receipt verifies on another machine, with the payload and without a network", async () => {
        const dir = `${all.ada}-elsewhere`,
          write = (name: string, text: string) => Deno.writeTextFile(`${dir}/${name}`, text);
        await Deno.mkdir(dir, { mode: 0o700 });
        await write("receipt.json", JSON.stringify(await svcHere(all.ada, ["sent", requestId, "--to", "beta"])));
        await write("keys.json", await (await fetch(`${all.service.url}/.well-known/svc-keys.json`)).text());
        await write("payload.json", JSON.stringify({ message: textOf(requestId) }));
        const files = ["receipt.json", "--payload", "payload.json", "--key-document", "keys.json"];
        const words = files.map((word) => word.endsWith(".json") ? `${dir}/${word}` : word);
        const { valid, receipt, checks } = await svcHere(dir, ["receipt", "verify", ...words]);
        assertEquals([valid, receipt.requestId, receipt.status], [true, requestId, "processed_by_svc"]);
        const { result, detail } = checks.find(({ name }: { name: string }) => name === "payload");
        assertEquals([result, detail], ["passed", "what was sealed, with the salt"]);
      });
    },
  );

  await t.step("a time that is two days ahead moves no clock", async () => {
    await all.relay.arm("date");
    await all.alpha.call("POST", "/v1/outbound", { to: "gamma", text: "hi" });
    await all.relay.made("date");
    await eventually(
      60_000,
      "the connector refuses the time",
      () => all.alpha.events.some(({ event }) => event === "clock_offset_refused") || undefined,
    );
    assertEquals((await all.alpha.json("GET", "/v1/status")).clockOffsetMs, 0);
    const { requestId, text } = await send(all);
    await arrives(all, text);
    // A connector that is killed before it knows of the runtime's answer hands the message over again.
    await eventually(60_000, "the message is processed", async () => {
      return (await all.alpha.json("GET", `/v1/outbound/${requestId}`)).state === "processed" || undefined;
    });
  });

  await t.step("replay after a restart", async () => {
    await all.beta.child.end("SIGKILL");
    all.beta = more.use(await all.start(all.bob, "beta", "--runtime-base-url", all.runtime.url));
    await all.relay.arm("replay");
    const before = textsOf(all).length;
    const { text } = await send(all);
    await all.relay.acks("replay", 4);
    await arrives(all, text);
    assertEquals(textsOf(all).length, before + 1);
  });
});
