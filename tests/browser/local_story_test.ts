/** Two people pair, write, read and answer in a browser, by clicks only; a typed answer survives what arrives meanwhile. */
import { assertEquals, assertMatch } from "@std/assert";
import { eventually } from "../support/process.ts";
import { assertNoSidewaysScroll, assertSays, browserTest, SIZES } from "./browser.ts";
import { Connectors, texts } from "./connectors.ts";

/** Only a test that hangs reaches this time. */
const SOON_MS = 20_000;

browserTest("two people pair, write, read and answer in the browser", async () => {
  await using w = await Connectors.open(["alpha", "beta"]);
  const ada = await w.page("alpha");
  const bob = await w.page("beta", { viewport: SIZES.phone, colorScheme: "dark" });

  await ada.page.click("text=Pair with an agent");
  await ada.page.click("text=Make a ticket");
  const ticket = await ada.page.textContent("#own-ticket") ?? "";
  await bob.page.click("nav >> text=Pair");
  await bob.page.fill("#ticket", "not a ticket");
  await bob.page.click("text=Continue");
  await assertSays(bob.page, "[role=alert]", "No pairing ticket in the pasted text.");
  await bob.page.fill("#ticket", `\n ${ticket.slice(0, 40)}\n${ticket.slice(40)} `);
  await bob.page.click("text=Continue");
  await bob.page.click("main button");
  await bob.page.waitForURL(/\/peers\/alpha\?new$/);
  // The page that made the ticket learns of it without a click.
  await ada.page.waitForSelector("#ticket-used", { timeout: SOON_MS });

  await bob.page.click("a.btn >> text=Write to");
  await bob.page.fill("#text", "Which port does the <b>staging</b> server use?");
  await bob.page.click("button >> text=Send");
  await bob.page.waitForSelector(".msg.mine");
  await ada.page.click("nav >> text=Inbox");
  await ada.page.click(".conv");
  assertEquals(await texts(ada.page, ".msg .text"), ["Which port does the <b>staging</b> server use?"]);
  assertMatch(await ada.page.title(), /^\(1\) beta · alpha$/);

  await ada.page.fill("#text", "8443, and");
  await ada.page.evaluate(() => {
    const { document } = globalThis as unknown as { document: { getElementById(id: string): Element } };
    interface Element {
      focus(): void;
      setSelectionRange(from: number, to: number): void;
    }
    document.getElementById("text").focus();
    document.getElementById("text").setSelectionRange(2, 4);
  });
  for (let i = 0; i < 10; i++) await w.call("beta", "/v1/outbound", { to: "alpha", text: `number ${i}` });
  await ada.page.locator(".msg").nth(10).waitFor({ timeout: SOON_MS });
  const field = await ada.page.evaluate(
    "[text.value, document.activeElement.id, text.selectionStart, text.selectionEnd]",
  );
  assertEquals(field, ["8443, and", "text", 2, 4]);

  // The newest is offered; the person answers the first one.
  await ada.page.goto(`${ada.base}/inbox/beta?answer=1`);
  await assertSays(ada.page, "label[for=text]", "Which port does the");
  await ada.page.fill("#text", "8443.");
  await ada.page.keyboard.press("Control+Enter");
  await ada.page.waitForSelector(".msg.mine");
  await ada.page.keyboard.press("Tab");
  assertEquals(await ada.page.evaluate("document.activeElement.id"), "text");
  await bob.page.waitForSelector(".msg:not(.mine) .quote", { timeout: SOON_MS });
  assertEquals(await texts(bob.page, ".msg:not(.mine) .text"), ["8443."]);
  // The answer has told the sender that its question was read; opening the thread took nothing else.
  await eventually(SOON_MS, "the question is read", async () => {
    const states = await texts(bob.page, ".msg.mine .tag");
    return states[0] === "read" && states.slice(1).every((state) => state === "arrived") || undefined;
  });
  await ada.page.click("text=Mark 10 read");
  await ada.page.locator("#mark button").waitFor({ state: "detached" });
  assertEquals((await w.call("alpha", "/v1/inbox") as { messages: unknown[] }).messages, []);

  for (const { page, base } of [ada, bob]) {
    for (const path of ["inbox", "peers", "sent", "dead", "status", "send"]) {
      await page.goto(`${base}/${path}`);
      await assertNoSidewaysScroll(page, path);
    }
  }
  await ada.page.click("nav >> text=Peers");
  await assertSays(ada.page, "#peers", "online");
  await ada.page.click("a.name >> text=beta");
  await assertSays(ada.page, "main", "proven end to end and sealed");
  await ada.page.fill("#alias", "no name");
  await ada.page.click("button >> text=Rename");
  await assertSays(ada.page, "[role=alert]", "1 to 32 of A-Z");
  assertEquals(await ada.page.inputValue("#alias"), "no name");
  await ada.page.fill("#alias", "bob");
  await ada.page.click("button >> text=Rename");
  await ada.page.waitForURL(/\/peers\/bob$/);
  await ada.page.click("button >> text=Block");
  await ada.page.waitForSelector("dd >> text=blocked");
  assertEquals(await ada.page.locator("text=Write to bob").count(), 0);
  await ada.page.goto(`${ada.base}/inbox/bob`);
  await assertSays(ada.page, ".write", "You have blocked this peer");
  await ada.page.goto(`${ada.base}/send`);
  assertEquals(await ada.page.locator("#to").count(), 0);
  await ada.page.goto(`${ada.base}/peers/bob`);
  await ada.page.click("button >> text=Unblock");
  await ada.page.waitForSelector("dd >> text=online");
  assertEquals(await ada.page.locator("text=Write to bob").count(), 1);
  await ada.page.click("text=End the pair…");
  await ada.page.click("button.danger");
  await ada.page.waitForURL(/\/peers$/);
  await ada.page.goto(`${ada.base}/inbox/bob`);
  await assertSays(ada.page, ".write", "has ended");
  assertEquals([...ada.problems, ...bob.problems], []);
});
