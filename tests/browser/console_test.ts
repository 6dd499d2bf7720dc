/** The operator's console in a browser: its story by clicks, its attacks, each page once. tests/soak/browser_console_test.ts has the rest. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { REGISTRY_URL } from "../support/world.ts";
import {
  assertSays,
  browserTest,
  REACH_OF_NONE,
  reachOfOpener,
  SIZES,
  TestBrowser,
  whatMistakesRun,
} from "./browser.ts";
import { assertConsolePages } from "./console_pages.ts";
import { ConsoleWorld } from "./console_world.ts";

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
  await assertSays(page, "main", "“key in a public repository”");
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
  // Without it, the way back may begin while the page of the answer takes the place of the other one.
  await page.waitForSelector("text=This session is closed");
  await page.waitForLoadState();
  await page.goBack();
  await assertSays(page, "main", "svc admin open");
  assertEquals(problems, []);
});

browserTest("each page of the console is accessible, fits a phone, is small and shows names as text", async () => {
  await using w = await ConsoleWorld.open();
  await assertConsolePages(w, { schemes: ["dark"], sizes: [SIZES.phone] });
});

browserTest("another site, a frame, another name and a stolen code get nothing of the console", async () => {
  await using w = await ConsoleWorld.open();
  const { alpha } = await w.populate();
  const { page, context, base, problems } = await w.page();
  await page.goto(`${base}/agents/${alpha.agent.id}/revoke`);
  const csrf = await page.locator("main [name=csrf]").inputValue();
  assertEquals(await whatMistakesRun(page, `${REGISTRY_URL}/v1/metadata`), []);
  problems.length = 0;
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
  assertEquals(await reachOfOpener(tab, `${base}/overview`), REACH_OF_NONE);
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
  await assertSays(late.page, "main", "svc admin open");
  // The address of a session alone, as a history has it, is none.
  const answer = await late.page.goto(`${base}/overview`);
  assertEquals(answer?.status(), 403);
  assert(!(await late.page.content()).includes("Admin"));

  const old = await w.address();
  w.world.clock.step(61_000);
  await late.page.goto(old);
  await late.page.click("button.btn");
  await assertSays(late.page, "main", "over 1 min old");
  assertEquals(problems, []);
});

browserTest("another name, another port and half of a session get nothing of the console", async () => {
  await using w = await ConsoleWorld.open();
  const { alpha } = await w.populate();
  const { page, context, base } = await w.page();
  const { host, pathname } = new URL(base);
  await using rebound = await TestBrowser.start({ "evil.test": w.served.server.addr.port });
  const evil = await rebound.open();
  for (const path of ["/console", `${pathname}/overview`, new URL(await w.address()).pathname]) {
    assertEquals((await evil.page.goto(`https://evil.test${path}`))?.status(), 403, path);
  }

  // Each port of the name leads to this server, so the request shows what a server on another port would get.
  const tab = await context.newPage();
  const visited = await tab.goto(`https://${host}:8443/console/other`);
  assertEquals((await visited?.request().allHeaders())?.cookie, undefined);
  assertEquals((await tab.goto(`https://${host}:8443${pathname}/overview`))?.status(), 403);

  const [cookie] = await context.cookies(`${base}/`);
  assertEquals([cookie?.httpOnly, cookie?.secure, cookie?.sameSite], [true, true, "Strict"]);
  assertEquals(cookie?.path, `${pathname}/`);
  const own = { Host: host, Cookie: `${cookie?.name}=${cookie?.value}` };
  const ask = async (path: string, headers: Record<string, string>, form?: Record<string, string>) => {
    const body = form === undefined ? null : new URLSearchParams(form);
    const method = form === undefined ? "GET" : "POST";
    const request = new Request(REGISTRY_URL + path, { method, headers, body });
    const answer = await w.world.registry.fetch(request, { from: "socket", address: "127.0.0.1" });
    await answer.body?.cancel();
    // No page of another site may read an answer.
    assertEquals(answer.headers.get("access-control-allow-origin"), null, path);
    return answer.status;
  };
  const { apiKey } = await w.world.admin();
  assertEquals(await ask(`${pathname}/overview`, own), 200);
  assertEquals(await ask(`${pathname}/overview`, { Host: host }), 403);
  assertEquals(await ask(`/console/${"A".repeat(22)}/overview`, own), 403);
  assertEquals(await ask(`${pathname}/overview`, { Host: host, Authorization: `Bearer ${apiKey}` }), 403);
  assertEquals(await ask("/v1/admin/people", own), 401);

  const revoke = `${pathname}/agents/${alpha.agent.id}/revoke`;
  await page.goto(REGISTRY_URL + revoke);
  const csrf = await page.locator("main [name=csrf]").inputValue();
  const sent = { ...own, Origin: REGISTRY_URL };
  assertEquals(await ask(revoke, sent, { csrf: "A".repeat(43) }), 403);
  assertEquals(await ask(`${pathname}/close`, sent, { csrf }), 200);
  assertEquals(await ask(revoke, sent, { csrf }), 403);
  assertEquals((await w.world.client.agent(alpha.owner.apiKey, alpha.agent.id)).status, "active");
});
