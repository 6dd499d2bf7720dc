/** What every page without a session must be, at one size of the window. */
import { assertEquals } from "@std/assert";
import { REGISTRY_URL } from "../support/world.ts";
import { assertAccessible, assertNoSidewaysScroll, SIZES } from "./browser.ts";
import { ServedWorld } from "./served_world.ts";

export const OPEN_PAGES = ["/", "/join", "/join#svc_inv_abc", "/docs", "/docs/messages", "/docs/errors"];

/** Asserts that pages are accessible, fit the window and report nothing. */
export async function assertOpenPages(size: keyof typeof SIZES, paths = OPEN_PAGES): Promise<void> {
  await using served = await ServedWorld.open();
  const colorScheme = size === "phone" ? "dark" : "light";
  const { page, problems } = await served.browser.open({ viewport: SIZES[size], colorScheme, bypassCSP: true });
  for (const path of paths) {
    await page.goto("about:blank");
    await page.goto(REGISTRY_URL + path);
    await assertAccessible(page, `${path} on a ${size}`);
    await assertNoSidewaysScroll(page, `${path} on a ${size}`);
  }
  assertEquals(problems, []);
}
