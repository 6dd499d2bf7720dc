/** The pages of the operator's console, each looked at in a browser. */
import { assert, assertEquals } from "@std/assert";
import { assertAccessible, assertNoSidewaysScroll, layoutShift, SIZES } from "./browser.ts";
import { type ConsoleWorld, HOSTILE_NAMES } from "./console_world.ts";

/** Largest size of a page in bytes. */
export const PAGE_BYTES = 50_000;

/** Looks that a page may have. */
export interface Looks {
  schemes: readonly ("light" | "dark")[];
  sizes: readonly { width: number; height: number }[];
  /** True: each page fits the smallest window too, where nothing of it moves while it is shown. */
  isStill?: boolean;
}

/** Asserts that each page is accessible, not wider than its window, small and silent, and that it shows names as text. */
export async function assertConsolePages(w: ConsoleWorld, { schemes, sizes, isStill = false }: Looks): Promise<void> {
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
  for (const colorScheme of schemes) {
    const { page, base, problems } = await w.page({ viewport: SIZES.desktop, colorScheme, bypassCSP: true });
    for (const path of paths) {
      const answer = await page.goto(`${base}/${path}`);
      assert((await answer?.body())!.length < PAGE_BYTES, `${path} is too large`);
      for (const size of sizes) {
        await page.setViewportSize(size);
        await assertAccessible(page, `${path}, ${colorScheme}, ${size.width}`);
        await assertNoSidewaysScroll(page, path);
      }
      assertEquals(await page.locator("main script, main img, [onload], [onerror], [onmouseover]").count(), 0, path);
    }
    assertEquals(problems, []);
  }
  const { page, base, problems } = await w.page({ viewport: { width: 320, height: 640 } });
  for (const path of isStill ? paths : []) {
    await page.goto(`${base}/${path}`);
    await assertNoSidewaysScroll(page, `${path} at 320`);
    // Only in a window that keeps its size: another size moves everything.
    assertEquals(await layoutShift(page), 0, `${path} moves while it is shown`);
  }
  await page.goto(`${base}/people`);
  const names = await page.locator("a.name").allTextContents();
  for (const name of HOSTILE_NAMES) assert(names.includes(name), name);
  assertEquals(problems, []);
}
