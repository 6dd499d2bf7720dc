/** The messages in answers under way (D-395): marked when the answer has left, released in every other case. */
import { assertEquals, assertRejects } from "@std/assert";
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { Answers } from "../../../cli/mcp/answers.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import type { LocalCalls } from "../../../shared/client/local_client.ts";

const REFUSED: JSONRPCMessage = { jsonrpc: "2.0", id: 1, result: { content: [], isError: true } };
const RESULT: JSONRPCMessage = { jsonrpc: "2.0", id: 1, result: { content: [], structuredContent: {} } };

/** Answers whose connector leases each message but 9, and what it was asked after each lease. */
function world(before: () => Promise<void> = () => Promise.resolve(), after = before) {
  const asked: unknown[] = [];
  const send: LocalCalls["send"] = async ({ body = "" }) => {
    const { ids, ...how } = JSON.parse(body) as { ids: number[]; lease?: number; leaseId: string };
    if (how.lease === 20) await before();
    else asked.push(how.lease === 0 ? "released" : "read", how.leaseId, ids);
    if (how.lease !== 20) await after();
    return { status: 200, headers: new Headers(), text: JSON.stringify({ read: ids.filter((id) => id !== 9) }) };
  };
  const answers = new Answers({ agentName: "beta", send }, () => "lease-id");
  return { answers, asked };
}

/** The same, with an answer that holds two messages. */
async function holding() {
  const { answers, asked } = world();
  const cancel = new AbortController();
  assertEquals(await answers.begin(1, cancel.signal).hold([1, 2]), [1, 2]);
  return { answers, asked, cancel };
}

const READ = ["read", "lease-id", [1, 2]], RELEASED = ["released", "lease-id", [1, 2]];

Deno.test("what an answer holds is read after its write, and not before", async () => {
  const { answers, asked } = await holding();
  await answers.write(RESULT, () => {
    assertEquals(asked, []);
    return Promise.resolve();
  });
  await answers.settled();
  assertEquals(asked, READ);
  await answers.write(RESULT, () => Promise.resolve());
  assertEquals(asked, READ, "once");
});

Deno.test("what an answer holds is released when it does not show it", async (t) => {
  const errors: [what: string, message: JSONRPCMessage][] = [
    ["an error of the protocol", { jsonrpc: "2.0", id: 1, error: { code: -32603, message: "Internal error" } }],
    ["an error of the tool", REFUSED],
  ];
  for (const [what, message] of errors) {
    await t.step(what, async () => {
      const { answers, asked } = await holding();
      await answers.write(message, () => Promise.resolve());
      assertEquals(asked, RELEASED);
    });
  }
  await t.step("a write that fails", async () => {
    const { answers, asked } = await holding();
    await assertRejects(() => answers.write(RESULT, () => Promise.reject(new Error("EPIPE"))), Error, "EPIPE");
    assertEquals(asked, RELEASED);
  });
  await t.step("a cancelled call", async () => {
    const { asked, cancel } = await holding();
    cancel.abort();
    assertEquals(asked, RELEASED);
  });
  await t.step("a call that is cancelled while the connector leases", async () => {
    const leased = Promise.withResolvers<void>();
    const { answers, asked } = world(() => leased.promise);
    const cancel = new AbortController();
    const holding = answers.begin(1, cancel.signal).hold([1, 2]);
    cancel.abort();
    assertEquals(asked, []);
    leased.resolve();
    await holding;
    assertEquals(asked, RELEASED);
  });
});

Deno.test("the answer to one request does not mark what a second one with the same ID holds", async () => {
  const { answers, asked } = world();
  const [one, two] = [new AbortController(), new AbortController()];
  await answers.begin(1, one.signal).hold([1]);
  const second = await Promise.try(() => answers.begin(1, two.signal).hold([2])).catch(String);
  await answers.write(REFUSED, () => Promise.resolve());
  await answers.write(RESULT, () => Promise.resolve());
  await answers.settled();
  assertEquals(asked, ["released", "lease-id", [1]]);
  assertEquals(second, "ToolError: A request with the ID 1 is under way. Call the tool again with a new ID.");
});

Deno.test("a cancel during the write leaves the decision to the write", async () => {
  const { answers, asked, cancel } = await holding();
  await answers.write(RESULT, () => Promise.resolve(cancel.abort()));
  assertEquals(asked, READ);
});

Deno.test("a message that another program has is not marked with those that an answer holds", async () => {
  const { answers, asked } = world();
  assertEquals(await answers.begin(1, new AbortController().signal).hold([1, 9, 2]), [1, 2]);
  await answers.write(RESULT, () => Promise.resolve());
  assertEquals(asked, READ);
});

Deno.test("after a cancel a late answer marks nothing, and another request may have the ID", async () => {
  const { answers, asked, cancel } = await holding();
  cancel.abort();
  await answers.write(RESULT, () => Promise.resolve());
  assertEquals(asked, RELEASED);
  await answers.begin(1, new AbortController().signal).hold([3]);
  await answers.write(RESULT, () => Promise.resolve());
  assertEquals(asked, [...RELEASED, "read", "lease-id", [3]]);
});

Deno.test("an end waits until what was answered is marked, because the process would otherwise end before it", async () => {
  const marked = Promise.withResolvers<void>();
  const { answers } = world(() => Promise.resolve(), () => marked.promise);
  await answers.begin(1, new AbortController().signal).hold([1]);
  await answers.write(RESULT, () => Promise.resolve());
  let isSettled = false;
  const settled = answers.settled().then(() => isSettled = true);
  await flushTasks();
  assertEquals(isSettled, false);
  marked.resolve();
  await settled;
});
