/** A local page that stays open: what arrives, what is closed elsewhere, and a server that does not answer. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { assertSays, browserTest } from "./browser.ts";
import { Connectors } from "./connectors.ts";
import { until } from "../support/until.ts";

/** As far as the functions use it that run in a page. */
declare const document: { getElementById(id: string): unknown; activeElement: { textContent: string } };
declare const MutationObserver: new (
  seen: (changes: { addedNodes: { length: number } }[]) => void,
) => { observe(node: unknown, options: object): void };

browserTest("a long thread keeps the focus while messages arrive, and announces only what is new", async () => {
  await using w = await Connectors.open(["alpha", "beta"]);
  await w.pair("alpha", "beta");
  for (let i = 0; i < 32; i++) await w.call("beta", "/v1/outbound", { to: "alpha", text: `number ${i}` });
  const { page, base, problems } = await w.page("alpha", { viewport: { width: 360, height: 740 } });
  assert(await page.isVisible("text=Close session"), "a phone can close its session");
  await page.goto(`${base}/inbox/beta`);
  await page.locator(".msg a").last().focus();
  const added = page.evaluate(() =>
    new Promise<number>((resolve) => {
      new MutationObserver((changes) => {
        resolve(changes.reduce((sum, { addedNodes }) => sum + addedNodes.length, 0));
      }).observe(document.getElementById("log"), { childList: true });
    })
  );
  await w.call("beta", "/v1/outbound", { to: "alpha", text: "the newest" });
  // The message, the link to older ones, and where the unread ones begin.
  assert(await added <= 3, `${await added} nodes are announced`);
  assertStringIncludes(await page.evaluate(() => document.activeElement.textContent), "Answer message 32");
  assertEquals(problems, []);
});

browserTest(
  "an open page follows another tab, says when nothing answers, and loses no text with its session",
  async () => {
    await using w = await Connectors.open(["alpha", "beta"]);
    await w.pair("alpha", "beta");
    const { page, context, base, problems } = await w.page("alpha");
    const tab = await context.newPage();
    await page.goto(`${base}/pair`);
    await tab.goto(`${base}/pair`);
    await tab.click("text=Make a ticket");
    await assertSays(page, "#own-ticket", await tab.textContent("#own-ticket") ?? "");
    await tab.click("text=Make another one");
    await assertSays(page, "#own-ticket", await tab.textContent("#own-ticket") ?? "");

    await page.goto(`${base}/inbox/beta`);
    await page.fill("#text", "half a thought\n  👩‍💻");
    // What a front answers while the server behind it restarts.
    await page.route("**/inbox/beta", (route) => route.fulfill({ status: 502, body: "bad gateway" }));
    await page.waitForSelector("#lost[role=alert]", { state: "visible" });
    await page.keyboard.press("Control+Enter");
    await page.click("button >> text=Send");
    await page.waitForResponse((response) => response.status() === 502);
    assertEquals(await page.inputValue("#text"), "half a thought\n  👩‍💻");
    await tab.click("text=Close session");
    await tab.waitForSelector("text=This session is closed");
    await page.unroute("**/inbox/beta");
    await page.waitForSelector("#over[role=alert]", { state: "visible" });
    assertEquals(await page.isVisible("#lost"), false);
    await page.keyboard.press("Control+Enter");
    await assertSays(page, "h1", "This session is over");
    assertEquals(await page.locator("code").last().textContent(), "half a thought\n  👩‍💻");
    assertEquals(problems, []);
  },
);

browserTest("a second click sends nothing, and the first one after Back sends", async () => {
  await using w = await Connectors.open(["alpha"]);
  const { page, base } = await w.page("alpha");
  await page.goto(`${base}/pair`);
  let sent = 0;
  // With this status the page stays, as it does while an answer is on its way.
  await page.route("**/pair", (route) => {
    if (route.request().method() !== "POST") return route.continue();
    sent++;
    return route.fulfill({ status: 204 });
  });
  const press = () => page.click("text=Make a ticket");
  await press();
  await press();
  await until(() => sent > 0);
  // What a browser reports of a page that it kept for Back. The one of the tests keeps none.
  await page.evaluate(() => dispatchEvent(new Event("pageshow")));
  assertEquals(sent, 1);
  await press();
  await until(() => sent === 2);
});
