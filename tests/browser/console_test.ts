/** The operator's console in a browser: its story by clicks and by keyboard, its attacks, its looks at two sizes, its sizes. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { AMPLE_QUOTAS, REGISTRY_URL } from "../support/world.ts";
import { assertAccessible, assertNoSidewaysScroll, browserTest, SIZES } from "./browser.ts";
import { ConsoleWorld, HOSTILE_NAMES } from "./console_world.ts";

/** As far as the functions use it that run in a page. */
declare const document: { activeElement: { textContent: string; tagName: string } };
declare const performance: {
  getEntriesByType(type: string): { value: number }[];
};

/** Largest size of a page in bytes. */
const PAGE_BYTES = 50_000;

browserTest("an admin opens the console, suspends, restores, revokes and invites by clicks", async () => {
  await using w = await ConsoleWorld.open();
  const { beta } = await w.populate();
  const { page, problems } = await w.page();
  await page.click("nav >> text=People");
  await page.fill("#q", "ada");
  await page.click("text=Filter");
  await page.click("td >> text=Ada Ovelace");
  await page.click("text=Suspend…");
  await page.fill("#reason", "key in a public repository");
  await page.click("button.danger");
  await page.waitForSelector(".tag >> text=suspended");
  await page.click("button >> text=Restore");
  await page.waitForSelector("dl .tag.ok >> text=active");
  await page.click("nav >> text=Audit");
  assertStringIncludes(await page.textContent("main") ?? "", "“key in a public repository”");
  await page.click("nav >> text=Agents");
  await page.click("a.name >> text=beta");
  await page.click("text=Revoke…");
  await page.click("text=Keep it");
  await page.click("text=Revoke…");
  await page.click("button.danger");
  await page.waitForSelector(".tag.bad >> text=revoked");
  assertEquals((await w.world.client.agent(beta.owner.apiKey, beta.agent.id)).status, "revoked");
  await page.click("nav >> text=Invites");
  await page.click("text=Create an invite");
  assertStringIncludes(await page.textContent("#link") ?? "", `${REGISTRY_URL}/join#svc_inv_`);
  await page.click("text=Done");
  await page.click("text=Take back…");
  await page.click("button.danger");
  await page.waitForURL(/\/invites$/);
  const download = page.waitForEvent("download");
  await page.click("nav >> text=Audit");
  await page.click("text=Download");
  assertEquals((await download).suggestedFilename(), "audit.jsonl");
  await page.click("text=Log out");
  await page.goBack();
  assertStringIncludes(await page.textContent("main") ?? "", "svc admin open");
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
  await page.waitForSelector("text=This session is closed.");
});

browserTest("each page of the console is accessible, fits a phone, is small and shows names as text", async () => {
  await using w = await ConsoleWorld.open();
  const { beta, waitingId } = await w.populate();
  const paths = [
    "overview",
    "overview?span=day",
    "people",
    `people/${beta.owner.id}`,
    `people/${beta.owner.id}/suspend`,
    "agents?status=all",
    "agents?q=bata",
    `agents/${beta.agent.id}`,
    `agents/${beta.agent.id}/revoke`,
    `deliveries?requestId=${waitingId}`,
    "deliveries?requestId=refused-0-of-beta",
    "queues",
    "invites",
    "audit",
    "limits",
  ];
  for (const colorScheme of ["light", "dark"] as const) {
    const { page, base, problems } = await w.page({ viewport: SIZES.desktop, colorScheme, bypassCSP: true });
    for (const path of paths) {
      const answer = await page.goto(`${base}/${path}`);
      assert((await answer?.body())!.length < PAGE_BYTES, `${path} is too large`);
      for (const size of [SIZES.desktop, SIZES.phone]) {
        await page.setViewportSize(size);
        await assertAccessible(page, `${path}, ${colorScheme}, ${size.width}`);
        await assertNoSidewaysScroll(page, path);
      }
      assertEquals(await page.locator("main script, main img, [onload], [onerror], [onmouseover]").count(), 0, path);
    }
    assertEquals(problems, []);
  }
  const { page, base, problems } = await w.page({ viewport: { width: 320, height: 640 } });
  for (const path of paths) {
    await page.goto(`${base}/${path}`);
    await assertNoSidewaysScroll(page, `${path} at 320`);
  }
  await page.goto(`${base}/people`);
  const names = await page.locator("a.name").allTextContents();
  for (const name of HOSTILE_NAMES) assert(names.includes(name), name);
  assertEquals(problems, []);
});

browserTest("the overview follows the proxy away and back without a click, and nothing moves", async () => {
  await using w = await ConsoleWorld.open();
  await w.populate();
  const { world } = w;
  const { page } = await w.page();
  const call = world.callProxy;
  world.callProxy = () => Promise.reject(new TypeError("refused"));
  world.clock.step(10_000);
  await page.waitForSelector("[role=alert]", { timeout: 60_000 });
  assertStringIncludes(await page.textContent(".tiles") ?? "", "online: not known");
  world.callProxy = call;
  world.clock.step(10_000);
  await page.waitForSelector("#charts", { timeout: 60_000 });
  await page.click("#c1 summary");
  assertEquals(await page.locator("#c1 tbody tr").count(), 60);
  const shift = await page.evaluate(() =>
    performance.getEntriesByType("layout-shift").reduce((sum, { value }) => sum + value, 0)
  );
  assertEquals(shift, 0);
});

browserTest("another site, a frame, another name and a stolen code get nothing of the console", async () => {
  await using w = await ConsoleWorld.open();
  const { alpha } = await w.populate();
  const { page, context, base, problems } = await w.page();
  await page.goto(`${base}/agents/${alpha.agent.id}/revoke`);
  const csrf = await page.locator("main [name=csrf]").inputValue();
  const html =
    `<form method="post" action="${base}/agents/${alpha.agent.id}/revoke"><input name="csrf" value="${csrf}">` +
    `<button>go</button></form><iframe src="${base}/overview"></iframe>`;
  await using other = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    () => new Response(html, { headers: { "Content-Type": "text/html" } }),
  );
  const tab = await context.newPage();
  await tab.goto(`http://127.0.0.1:${other.addr.port}`);
  assert(!(await tab.frames()[1]?.content() ?? "").includes("Overview"));
  const answered = tab.waitForResponse((response) => response.request().method() === "POST");
  await tab.click("button");
  assertEquals((await answered).status(), 403);
  assertEquals((await w.world.client.agent(alpha.owner.apiKey, alpha.agent.id)).status, "active");

  const address = await w.address();
  const thief = await w.served.browser.open({ javaScriptEnabled: false });
  await thief.page.goto(address);
  await thief.page.goto(address);
  await thief.page.click("button.btn");
  await thief.page.waitForURL(/\/overview$/);
  const late = await w.served.browser.open({ javaScriptEnabled: false });
  await late.page.goto(address);
  await late.page.click("button.btn");
  assertStringIncludes(await late.page.textContent("main") ?? "", "svc admin open");
  // The address of a session alone, as a history has it, is none.
  const answer = await late.page.goto(`${base}/overview`);
  assertEquals(answer?.status(), 403);
  assert(!(await late.page.content()).includes("Admin"));
  assertEquals(problems, []);
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
  assertEquals(await page.locator("tbody tr").count(), 50);
  assertEquals(problems, []);
});
