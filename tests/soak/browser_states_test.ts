/**
 * Each page that was drawn before it was built has its counterpart here, by the name of its drawing; and the pages of a
 * connector that has nothing yet, and of one that has one of each thing.
 */
import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { assertAccessible, assertNoSidewaysScroll, assertSays, browserTest, SIZES } from "../browser/browser.ts";
import { Connectors } from "../browser/connectors.ts";
import { ConsoleWorld, REGISTRY_URL } from "../browser/console_world.ts";

/** Name of the drawing, path of the page, and what it says. */
type Row = readonly [drawing: string, path: string, says: string];

const OF_NO_SESSION: readonly Row[] = [
  ["landing", "/", "Agents that can prove who they are"],
  ["join", "/join#svc_inv_abc", "Make your account and your first agent"],
  ["join-no-invite", "/join", "This address has no invite"],
  ["docs", "/docs/messages", "Deliver a message to a paired agent"],
];
const OF_CONSOLE: readonly Row[] = [
  ["overview", "overview", "Refusals that someone should look at"],
  ["overview-restarted", "overview?span=day", "what was before is not kept"],
  ["agents", "agents?status=all", "newest first"],
  ["agents-empty", "agents?q=alpah", "Did you mean"],
  ["audit", "audit", "Agent registered"],
  ["delivery", "deliveries?requestId=request-that-waits", "all checks passed"],
  ["delivery-refused", "deliveries?requestId=refused-0-of-beta", "Refused"],
];
const OF_NONE: readonly Row[] = [
  ["inbox-empty", "inbox", "No messages yet"],
  ["", "peers", "No peers yet"],
  ["", "sent", "Nothing sent yet"],
  ["", "dead", "No dead letters"],
  ["", "send", "No peers yet"],
  ["", "status", "This connector"],
];
const OF_ONE: readonly Row[] = [
  ["inbox-list", "inbox", "beta"],
  ["inbox", "inbox/beta", "Written by another agent."],
  ["send", "send", "Keep it while"],
  ["sent", "sent", "The latest messages of alpha"],
  ["pair", "pair", "Your ticket"],
  ["pair-done", "peers/beta?new", "Paired with beta"],
  ["", "peers", "1 of 1"],
  ["", "status", "This connector"],
];
/** Pages that the tests below reach by another way than an address. */
const REACHED = ["open", "over", "dead", "confirm", "agents-first", "overview-degraded"];

async function look(page: Page, base: string, rows: readonly Row[]): Promise<void> {
  for (const [, path, says] of rows) {
    await page.goto("about:blank");
    await page.goto(base + path);
    await assertSays(page, "body", says);
    await assertAccessible(page, path);
    await assertNoSidewaysScroll(page, path);
  }
}

Deno.test("each drawing has one counterpart", () => {
  const drawn = [...OF_NO_SESSION, ...OF_CONSOLE, ...OF_NONE, ...OF_ONE].map(([name]) => name).filter(Boolean);
  const all = [...drawn, ...REACHED].sort();
  assertEquals(all, [...new Set(all)]);
  assertEquals(all.length, 24);
});

browserTest("a connector with nothing and with one of each thing, and the ends of a session", async () => {
  await using w = await Connectors.open(["alpha", "beta"]);
  const opening = await w.browser.open({ javaScriptEnabled: false });
  await opening.page.goto(await w.address("alpha"));
  await assertSays(opening.page, "h1", "Open the page of this connector?");
  const { page, base, problems } = await w.page("alpha", { viewport: SIZES.phone, bypassCSP: true });
  await look(page, `${base}/`, OF_NONE);
  await w.pair("alpha", "beta");
  await w.call("beta", "/v1/outbound", { to: "alpha", text: "one" });
  await w.call("alpha", "/v1/outbound", { to: "beta", text: "one" });
  await look(page, `${base}/`, OF_ONE);
  await page.setViewportSize(SIZES.desktop);
  await page.click("text=Close session");
  await assertSays(page, "h1", "This session is closed");
  await page.goto(`${base}/inbox`);
  await assertSays(page, "h1", "This session is over");
  const refusing = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    () => new Response(null, { status: 400 }),
  );
  await w.running.get("beta")![Symbol.asyncDispose]();
  await w.start("beta", ["--yes", "--runtime-base-url", `http://127.0.0.1:${refusing.addr.port}`]);
  await w.call("alpha", "/v1/outbound", { to: "beta", text: "refused" });
  const beta = await w.page("beta", { bypassCSP: true });
  await beta.page.goto(`${beta.base}/dead`);
  await beta.page.waitForSelector("text=Hand over again");
  await assertAccessible(beta.page, "one dead letter");
  await refusing.shutdown();
  assertEquals([...problems, ...beta.problems], []);
});

browserTest("a console with nothing and with rows, a proxy that is away, and the pages without a session", async () => {
  await using w = await ConsoleWorld.open();
  const { page, base, problems } = await w.page({ viewport: SIZES.phone, bypassCSP: true });
  await look(page, `${base}/`, [["", "agents", "No agents yet"], ["", "queues", "No message waits"]]);
  const { beta } = await w.populate();
  w.world.clock.step(20_000);
  await look(page, `${base}/`, OF_CONSOLE);
  await look(page, REGISTRY_URL, OF_NO_SESSION);
  await page.goto(`${base}/agents/${beta.agent.id}/revoke`);
  await assertSays(page, "h1", "Revoke beta?");
  w.world.callProxy = () => Promise.reject(new TypeError("refused"));
  await look(page, `${base}/`, [["", "overview", "No numbers from the proxy"]]);
  assertEquals(problems, []);
});
