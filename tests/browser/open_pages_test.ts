/** The pages without a session in a browser: join links, hostile links, and each page on a phone; tests/soak has the other size. */
import { assertEquals } from "@std/assert";
import { REGISTRY_URL, World } from "../support/world.ts";
import { browserTest, TestBrowser } from "./browser.ts";
import { assertOpenPages } from "./open_pages.ts";
import { ServedWorld } from "./served_world.ts";

browserTest("each open page is accessible, fits a phone and reports nothing", async () => {
  await assertOpenPages("phone");
});

browserTest(
  "the join page writes the command of its link, of a hostile one none, and says how to join without a script",
  async () => {
    await using served = await ServedWorld.open();
    const { page, problems } = await served.browser.open();
    const shown = async (address: string) => {
      await page.goto("about:blank");
      await page.goto(REGISTRY_URL + address);
      const isShown = (when: string) => page.isVisible(`[data-when="${when}"]`);
      return [
        await isShown("invite") && await page.textContent("#invite"),
        await isShown("pairs"),
        await isShown("none"),
      ];
    };
    const command = (code: string) => `svc join '${REGISTRY_URL}/join#${code}' --start`;
    assertEquals(await shown("/join#svc_inv_aB3-_"), [command("svc_inv_aB3-_"), false, false]);
    assertEquals(await shown("/join?x=';rm#svc_inv_a.b.c"), [command("svc_inv_a.b.c"), true, false]);
    for (const end of ["", "#", "#svc_inv_a';reboot;'", "#svc_inv_a%27", "#svc_inv_a b", "#svc_pat_a"]) {
      assertEquals(await shown(`/join${end}`), [false, false, true], end);
    }
    // Into an address bar that shows the page already.
    await page.goto(`${REGISTRY_URL}/join#svc_inv_late`);
    await page.waitForSelector("#invite >> text=svc_inv_late");
    assertEquals(problems, []);

    const { page: plain } = await served.browser.open({ javaScriptEnabled: false });
    await plain.goto(`${REGISTRY_URL}/join#svc_inv_a`);
    assertEquals(await plain.textContent("#invite"), "svc join 'ADDRESS' --start");
    for (const absent of ["[data-when=none]", "[data-copy]"]) assertEquals(await plain.isVisible(absent), false);
  },
);

browserTest("a page on plain http has no button to copy, because a browser lets it copy nothing", async () => {
  await using world = await World.open();
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => world.registry.fetch(request, { from: "socket", address: "127.0.0.1" }),
  );
  await using browser = await TestBrowser.start({ "plain.test": server.addr.port });
  const { page } = await browser.open();
  await page.goto("http://plain.test/join#svc_inv_abc");
  await page.waitForSelector("#invite >> text=svc_inv_abc");
  assertEquals(await page.isVisible("[data-copy]"), false);
  await page.goto(`http://127.0.0.1:${server.addr.port}/join#svc_inv_abc`);
  await page.waitForSelector("[data-copy]");
});
