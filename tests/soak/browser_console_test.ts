/** The operator's console in a browser: each page with each look, a proxy that goes away, and many rows. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { browserTest, layoutShift, SIZES } from "../browser/browser.ts";
import { assertConsolePages, PAGE_BYTES } from "../browser/console_pages.ts";
import { ConsoleWorld } from "../browser/console_world.ts";
import { AMPLE_QUOTAS } from "../support/world.ts";

browserTest("each page of the console with each look is accessible, fits its window and is small", async () => {
  await using w = await ConsoleWorld.open();
  await assertConsolePages(w, { schemes: ["light", "dark"], sizes: [SIZES.desktop, SIZES.phone], isStill: true });
});

browserTest("the overview follows the proxy away and back without a click, and nothing moves", async () => {
  await using w = await ConsoleWorld.open();
  await w.populate();
  const { world } = w;
  const { page } = await w.page();
  const call = world.callProxy;
  world.callProxy = () => Promise.reject(new TypeError("refused"));
  world.clock.step(10_000);
  await page.waitForSelector("main [role=alert]", { timeout: 60_000 });
  assertStringIncludes(await page.textContent(".tiles") ?? "", "online: not known");
  world.callProxy = call;
  world.clock.step(10_000);
  await page.waitForSelector("#charts", { timeout: 60_000 });
  await page.click("#c1 summary");
  assertEquals(await page.locator("#c1 tbody tr").count(), 60);
  const moved = page.waitForResponse((response) => response.status() === 200);
  const before = await layoutShift(page);
  world.clock.step(10_000);
  await moved;
  assertEquals(await layoutShift(page) - before, 0);
});

browserTest("with 10,000 people, agents and events every page shows 50 rows and stays small", async () => {
  await using w = await ConsoleWorld.open({ registry: { quotas: AMPLE_QUOTAS } });
  const { alpha } = await w.populate();
  const { kv, newId } = w.world;
  const copies = async (prefix: string, id: string) => {
    const { value } = await kv.get<Record<string, unknown>>(["registry", prefix, id]);
    for (let done = 0; done < 10_000; done += 100) {
      const operation = kv.atomic();
      for (let i = 0; i < 100; i++) {
        const own = newId();
        operation.set(["registry", prefix, own], { ...value, id: own, did: String(value?.did).replace(id, own) });
      }
      await operation.commit();
    }
  };
  await copies("agent", alpha.agent.id);
  await copies("human", alpha.owner.id);
  const [event] = await Array.fromAsync(kv.list<{ id: string }>({ prefix: ["registry", "audit"] }, { limit: 1 }));
  await copies("audit", String(event?.value.id));
  w.world.clock.step(20_000);
  const { page, base, problems } = await w.page();
  for (const path of ["people", "agents", "audit?event=all", "people?q=ada", "agents?q=nothing", "agents?q=alpha"]) {
    const answer = await page.goto(`${base}/${path}`);
    assert((await answer?.body())!.length < PAGE_BYTES, path);
    assert(await page.locator("tbody tr:not(.day)").count() <= 50, path);
  }
  await page.goto(`${base}/agents`);
  assertStringIncludes(await page.textContent(".head") ?? "", "10,003 agents");
  await page.click("text=Older →");
  await page.waitForURL(/cursor=/);
  await page.waitForSelector("tbody tr");
  assertEquals(await page.locator("tbody tr").count(), 50);
  assertEquals(problems, []);
});

browserTest("the console works by keyboard alone and without a script", async () => {
  await using w = await ConsoleWorld.open();
  const { beta } = await w.populate();
  const { page, base } = await w.page({ javaScriptEnabled: false });
  await page.goto(`${base}/agents/${beta.agent.id}`);
  const press = async (text: string) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      if ((await page.locator(":focus").textContent())?.trim() === text) return await page.keyboard.press("Enter");
    }
    throw new Error(`No way to ${text} by Tab`);
  };
  await press("End session…");
  await page.waitForURL(/\/end$/);
  await press("End session");
  await page.waitForURL(/[0-9A-Z]{26}$/);
  await press("Log out");
  await page.waitForSelector("text=This session is closed");
});

browserTest("a double click makes one invite, and its link is shown", async () => {
  await using w = await ConsoleWorld.open();
  const { page, base } = await w.page();
  await page.goto(`${base}/invites`);
  await page.dblclick("text=Create an invite");
  await page.waitForURL((url: URL) => url.pathname.endsWith("/invites"));
  assertStringIncludes(await page.textContent("#link") ?? "", "/join#svc_inv_");
  await page.goto(`${base}/invites`);
  assertEquals(await page.locator("tbody tr").count(), 1);
});
