/** What a person does on the local pages beside the story of tests/browser/local_story_test.ts: without a script, and with what fails. */
import { assert, assertEquals } from "@std/assert";
import { assertAccessible, assertSays, browserTest } from "../browser/browser.ts";
import { Connectors, texts } from "../browser/connectors.ts";

/** Only a test that hangs reaches this time. */
const SOON_MS = 20_000;

browserTest("a person without a script reads, answers and closes the session", async () => {
  await using w = await Connectors.open(["alpha", "beta"]);
  await w.pair("alpha", "beta");
  await w.call("beta", "/v1/outbound", { to: "alpha", text: "hello" });
  const { page, base } = await w.page("alpha", { javaScriptEnabled: false });
  await page.click(".conv");
  await page.fill("#text", "and hello to you");
  await page.click("button >> text=Send");
  await page.waitForSelector(".msg.mine");
  assertEquals(await texts(page, ".msg .text"), ["hello", "and hello to you"]);
  await page.goto(`${base}/inbox`);
  assert((await page.content()).includes('http-equiv="refresh" content="30"'));
  await page.click("text=Close session");
  await page.waitForSelector("text=This session is closed");
  await page.goto(`${base}/inbox`);
  await assertSays(page, "main", "svc connector open alpha");
});

browserTest("a dead letter is handed over again, and an empty or refused message keeps what was typed", async () => {
  await using w = await Connectors.open(["alpha", "beta"]);
  await w.pair("alpha", "beta");
  const { page, base, problems } = await w.page("alpha");
  await page.goto(`${base}/inbox/beta`);
  await page.fill("#text", "   ");
  await page.click("button >> text=Send");
  await assertSays(page, "[role=alert]", "it is empty");
  await w.running.get("beta")![Symbol.asyncDispose]();
  w.running.delete("beta");
  await page.fill("#text", "for now <only>");
  await page.uncheck("[name=keep]");
  await page.click("button >> text=Send");
  await assertSays(page, "[role=alert]", "Not sent.");
  assertEquals(await page.inputValue("#text"), "for now <only>");
  await page.check("[name=keep]");
  await page.click("button >> text=Send");
  await page.waitForSelector(".msg.mine .tag >> text=waits", { timeout: SOON_MS });
  // A runtime that refuses a message permanently makes a dead letter of it.
  const refusing = Deno.serve({ port: 0, onListen() {} }, () => new Response(null, { status: 400 }));
  await w.start("beta", ["--runtime-base-url", `http://127.0.0.1:${refusing.addr.port}`]);
  const beta = await w.page("beta");
  await beta.page.goto(`${beta.base}/dead`);
  await beta.page.waitForSelector("text=Hand over again", { timeout: SOON_MS });
  await assertAccessible((await reopened(w, "beta", "dead")).page, "dead letters");
  await beta.page.click("text=Hand over again");
  await beta.page.waitForSelector("text=Hand over again", { timeout: SOON_MS });
  await beta.page.click("text=Delete all…");
  await beta.page.click("button.danger");
  await beta.page.waitForSelector("text=No dead letters");
  await refusing.shutdown();
  assertEquals([...problems, ...beta.problems], []);
});

/** The same page in a browser that lets axe load. */
async function reopened(w: Connectors, agent: string, path: string) {
  const watched = await w.page(agent, { bypassCSP: true });
  await watched.page.goto(`${watched.base}/${path}`);
  return watched;
}
