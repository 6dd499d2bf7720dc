/** Attacks on the local page, each with its refusal, in one browser against one connector. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Page } from "playwright-core";
import { browserTest, REACH_OF_NONE, reachOfOpener, TestBrowser, whatMistakesRun } from "./browser.ts";
import { Connectors, texts } from "./connectors.ts";

/** As far as the functions use it that run in a page. */
declare const document: { title: string };

/** A server of another program on this machine. */
class OtherServer implements AsyncDisposable {
  readonly cookies: (string | null)[] = [];
  html = "";
  readonly #server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
    this.cookies.push(request.headers.get("cookie"));
    return new Response(this.html, { headers: { "Content-Type": "text/html" } });
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

/** Runs an expression in a page, around its policy. */
async function statusAfter(page: Page, work: () => Promise<unknown>): Promise<number | undefined> {
  const answered = page.waitForResponse((response) => response.request().isNavigationRequest());
  await work();
  return (await answered).status();
}

const HOSTILE = [
  "<script>alert(1)</script>",
  `"><img src=x onerror=alert(2)>`,
  "</textarea></pre><svg onload=alert(3)>",
  "txt.\u202egpj\u200b",
  "<".repeat(65_536),
];

browserTest("no text of a peer becomes markup, script or an invisible sign", async () => {
  await using w = await Connectors.open(["alpha", "beta"]);
  await w.pair("alpha", "beta");
  for (const text of HOSTILE) await w.call("beta", "/v1/outbound", { to: "alpha", text, conversationId: "<script>" });
  await w.call("beta", "/v1/outbound", { to: "alpha", payload: { "</script><b>": "\u202e" } });
  const { page, base, problems } = await w.page("alpha");
  await page.goto(`${base}/inbox/beta`);
  const [first, second, third, fourth, fifth] = await texts(page, ".msg .text");
  assertEquals([first, second, third, fourth], [...HOSTILE.slice(0, 3), "txt.\\u{202e}gpj\\u{200b}"]);
  assertEquals(fifth?.length, 1_501);
  assertEquals(await page.locator("main script, main img, main b b, .text *").count(), 0);
  await page.click("text=The whole text");
  assertEquals((await page.textContent("pre.text"))?.length, 65_536);
  assert((await page.content()).length < 1_000_000);
  assertEquals(problems, []);
  // Nor would a mistake in escaping.
  assertEquals(await whatMistakesRun(page, `${new URL(base).origin}/v1/status`), []);
});

browserTest("other sites, other ports, other names and old codes get nothing", async (t) => {
  await using w = await Connectors.open(["alpha", "beta"]);
  await w.pair("alpha", "beta");
  const { page, context, base, problems } = await w.page("alpha");
  const { origin } = new URL(base);
  const [cookie] = await context.cookies(`${base}/`);
  const sent = async () => (await w.call("alpha", "/v1/sent") as { messages: unknown[] }).messages.length;
  await using other = new OtherServer();

  await t.step("a form of another port or of localhost is refused, also with the page's own field", async () => {
    await page.goto(`${base}/inbox/beta`);
    const csrf = await page.locator("#write [name=csrf]").inputValue();
    for (const target of [`${base}/inbox/beta`, base.replace("127.0.0.1", "localhost") + "/inbox/beta"]) {
      other.html =
        `<form method="post" action="${target}"><input name="csrf" value="${csrf}"><input name="text" value="x">` +
        `<button>go</button></form>`;
      const tab = await context.newPage();
      await tab.goto(other.url);
      assertEquals(await statusAfter(tab, () => tab.click("button")), 403, target);
      await tab.close();
    }
    assertEquals(await sent(), 0);
  });

  await t.step("a server on another port gets no cookie, and no page can be framed or read there", async () => {
    other.html = `<iframe src="${base}/inbox"></iframe><img src="${origin}/icon.svg"><script>
      fetch("${base}/inbox").then(() => document.title = "read", () => document.title = "refused");
    </script>`;
    const tab = await context.newPage();
    await tab.goto(`${other.url}/x`);
    await tab.waitForFunction(() => document.title.startsWith("re"));
    assertEquals(await tab.title(), "refused");
    const frame = tab.frames()[1];
    assert(!(await frame?.content() ?? "").includes("alpha"));
    assertEquals(other.cookies.filter((cookie) => cookie !== null), []);
    await tab.close();
  });

  await t.step("a page that another site opens is out of its reach", async () => {
    const tab = await context.newPage();
    await tab.goto(other.url);
    assertEquals(await reachOfOpener(tab, `${base}/inbox`), REACH_OF_NONE);
    await tab.close();
  });

  await t.step("a name that resolves to this machine is refused", async () => {
    await using rebound = await TestBrowser.start({ "evil.test": Number(new URL(origin).port) });
    const { page } = await rebound.open();
    for (const path of ["/", "/page.js", new URL(base).pathname + "/inbox"]) {
      assertEquals((await page.goto(`http://evil.test${path}`))?.status(), 403, path);
    }
  });

  await t.step("a code works once, a look uses nothing up, and another user sees no name", async () => {
    const address = await w.address("alpha");
    const preview = await (await fetch(address)).text();
    assertStringIncludes(preview, "data-auto");
    const thief = await w.browser.open({ javaScriptEnabled: false });
    await thief.page.goto(address);
    await thief.page.click("button.btn");
    await thief.page.waitForURL(/\/inbox$/);
    const late = await w.browser.open({ javaScriptEnabled: false });
    await late.page.goto(address);
    assertEquals(await statusAfter(late.page, () => late.page.click("button.btn")), 404);
    const stranger = await (await fetch(`${origin}/`)).text();
    assert(!/alpha|Ada/.test(stranger));
    assertStringIncludes(stranger, "svc connector open");
    for (const path of ["/p/", new URL(base).pathname + "/inbox", `/p/${"A".repeat(22)}/inbox`]) {
      const answer = await fetch(origin + path);
      assertEquals([answer.status, answer.headers.get("access-control-allow-origin")], [403, null], path);
      await answer.body?.cancel();
    }
  });

  await t.step("cookie and token do not stand for each other", async () => {
    const { token } = w.running.get("alpha")!.file;
    const status = async (path: string, headers: Record<string, string>) => {
      const answer = await fetch(origin + path, { headers });
      await answer.body?.cancel();
      return answer.status;
    };
    const own = `${cookie?.name}=${cookie?.value}`;
    assertEquals(await status("/v1/status", { Cookie: own }), 401);
    assertEquals(await status(`${new URL(base).pathname}/inbox`, { Authorization: `Bearer ${token}` }), 403);
    assertEquals(await status(`/p/${"A".repeat(22)}/inbox`, { Cookie: own }), 403);
    assertEquals(await status(`${new URL(base).pathname}/inbox`, { Cookie: own }), 200);
    assertMatch(cookie?.sameSite ?? "", /^Strict$/);
    assertEquals([cookie?.httpOnly, cookie?.path], [true, `${new URL(base).pathname}/`]);
  });

  await t.step("a form that is sent twice is one message, and after the session nothing", async () => {
    await page.goto(`${base}/inbox/beta`);
    const csrf = await page.locator("#write [name=csrf]").inputValue();
    const draftId = await page.locator("#write [name=draftId]").inputValue();
    const form = { csrf, draftId, text: "once", keep: "on" };
    const headers = { Origin: origin };
    const post = async () =>
      (await context.request.post(`${base}/inbox/beta`, { form, headers, maxRedirects: 0 })).status();
    assertEquals([await post(), await post(), await sent()], [303, 303, 1]);
    // A person who changes the text before a slow answer arrives has written another message.
    form.text = "changed";
    assertEquals([await post(), await post(), await sent()], [303, 303, 2]);
    const close = await context.request.post(`${base}/close`, { form: { csrf }, headers });
    assertEquals(close.status(), 200);
    form.draftId = "another-draft-id";
    assertEquals([await post(), await sent()], [403, 2]);
  });
  assertEquals(problems, []);
});
