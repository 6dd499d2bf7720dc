/** Each local page in a browser: accessible, no wider than the window, silent, small and usable by keyboard. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { assertAccessible, assertNoSidewaysScroll, browserTest, layoutShift, SIZES } from "../browser/browser.ts";
import { Connectors } from "../browser/connectors.ts";
import { assertOpenPages } from "../browser/open_pages.ts";

const PAGES = [
  "inbox",
  "inbox/beta",
  "message/3",
  "sent/1",
  "peers",
  "peers/beta",
  "peers/beta/remove",
  "pair",
  "sent",
  "dead",
  "status",
  "send",
];
/** A page that is larger takes long to show on a slow phone. */
const PAGE_BYTES = 51_200;

async function talked(): Promise<Connectors> {
  const w = await Connectors.open(["alpha", "beta"]);
  await w.pair("alpha", "beta");
  await w.call("beta", "/v1/outbound", { to: "alpha", text: "<b>" + "unbroken".repeat(40) });
  await w.call("beta", "/v1/outbound", { to: "alpha", payload: { host: "x".repeat(90), list: [1, 2] } });
  const long = "A sentence that goes on. ".repeat(300);
  await w.call("beta", "/v1/outbound", { to: "alpha", text: long });
  await w.call("alpha", "/v1/outbound", { to: "beta", text: long });
  await w.call("alpha", "/v1/pair/start", {});
  return w;
}

browserTest("each page of a connector is accessible, fits its window and reports nothing", async () => {
  await using w = await talked();
  const { desktop, phone } = SIZES;
  const looks = [[desktop, "light"], [desktop, "dark"], [phone, "light"], [phone, "dark"]] as const;
  for (const [size, colorScheme] of looks) {
    const { page, base, problems } = await w.page("alpha", { viewport: size, colorScheme, bypassCSP: true });
    for (const path of PAGES) {
      const answer = await page.goto(`${base}/${path}`);
      const bytes = (await answer?.body())?.length ?? 0;
      assert(bytes > 0 && bytes < PAGE_BYTES, `${path} has ${bytes} bytes`);
      await assertAccessible(page, `${path} at ${size.width}`);
      await assertNoSidewaysScroll(page, `${path} at ${size.width}`);
    }
    assertEquals(problems, []);
  }
  const { page, base, problems } = await w.page("alpha", { viewport: { width: 320, height: 640 } });
  for (const path of PAGES) {
    await page.goto(`${base}/${path}`);
    await assertNoSidewaysScroll(page, `${path} at 320`);
    assertEquals(await layoutShift(page), 0, `${path} moves while it is shown`);
  }
  assertEquals(problems, []);
});

browserTest("what a page shows first needs the page and one style sheet, and its script waits", async () => {
  await using w = await talked();
  const { page, base } = await w.page("alpha");
  const asked: string[] = [];
  page.on("request", (request) => asked.push(`${request.resourceType()} ${new URL(request.url()).pathname}`));
  await page.goto(`${base}/inbox/beta`);
  const own = new URL(base).pathname;
  assertEquals(asked.filter((one) => !one.endsWith("/icon.svg")), [
    `document ${own}/inbox/beta`,
    "stylesheet /page.css",
    "script /page.js",
  ]);
  assertEquals(await page.locator("head script:not([defer])").count(), 0);
});

browserTest("a person writes and marks messages read with the keyboard alone", async () => {
  await using w = await talked();
  const { page, base, problems } = await w.page("alpha");
  await page.goto(`${base}/inbox`);
  const focus = async (name: string) => {
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      const label = await page.evaluate("document.activeElement.innerText || document.activeElement.id");
      if (String(label).startsWith(name)) return;
    }
    throw new Error(`${name} is not reached by Tab`);
  };
  await page.keyboard.press("Tab");
  assertEquals(await page.evaluate("document.activeElement.innerText"), "Skip to content");
  await focus("beta");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/inbox\/beta$/);
  await focus("Mark 3 read");
  await page.keyboard.press("Enter");
  await page.locator("#mark button").waitFor({ state: "detached" });
  await focus("text");
  await page.keyboard.type("by keyboard");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".msg.mine >> text=by keyboard");
  assertEquals(problems, []);
});

browserTest("a page asks for changes only, and says so when its connector is gone", async () => {
  await using w = await talked();
  const { page, base, problems } = await w.page("alpha");
  await page.goto(`${base}/inbox/beta`);
  const statuses: number[] = [];
  page.on("response", (response) => statuses.push(response.status()));
  for (let i = 0; i < 2; i++) await page.waitForResponse((response) => response.status() === 304);
  assert(statuses.filter((status) => status === 200).length <= 1, `${statuses}`);
  await page.fill("#text", "half a thought");
  await w.running.get("alpha")![Symbol.asyncDispose]();
  w.running.delete("alpha");
  await page.waitForSelector("#lost", { state: "visible" });
  assertStringIncludes(await page.textContent("#lost") ?? "", "what you typed stays");
  await w.start("alpha");
  await page.waitForSelector("#over", { state: "visible" });
  assertEquals(await page.inputValue("#text"), "half a thought");
  assertEquals(problems, []);
});

browserTest("each open page is accessible and fits on a desktop", async () => {
  await assertOpenPages("desktop");
});
