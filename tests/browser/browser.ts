/** A real Chromium for tests of pages. Without one the tests are skipped and counted, unless SVC_REQUIRE_BROWSER is set. */
import { assertEquals } from "@std/assert";
import axe from "axe-core";
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

function findChromium(): string | null {
  return [Deno.env.get("CHROMIUM"), ...PLACES].find((path) => {
    try {
      return path !== undefined && path !== "" && Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  }) ?? null;
}

const PROGRAM = findChromium();
const IS_REQUIRED = (Deno.env.get("SVC_REQUIRE_BROWSER") ?? "") !== "";
if (PROGRAM === null && !IS_REQUIRED) console.log("browser tests: SKIPPED, no Chromium (set CHROMIUM)");

/** The two sizes at which pages are looked at. */
export const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } } as const;

/** A page with what it reported: messages of its console, errors and refusals of its policy. */
export interface Watched {
  page: Page;
  context: BrowserContext;
  problems: string[];
}

/** Browsers by the rules for their names. The tests of an isolate share them, because a start takes as long as a few pages. */
const launched = new Map<string, Promise<Browser>>();
Deno.test.afterAll(async () => {
  for (const browser of launched.values()) await (await browser).close();
});

/** A browser of a test: its contexts end with it. */
export class TestBrowser implements AsyncDisposable {
  readonly #contexts: BrowserContext[] = [];

  private constructor(readonly browser: Browser) {}

  /** @param hosts names of servers that are a port of this machine */
  static async start(hosts: Readonly<Record<string, number>> = {}): Promise<TestBrowser> {
    if (PROGRAM === null) throw new Error("SVC_REQUIRE_BROWSER is set and there is no Chromium (set CHROMIUM)");
    const rules = Object.entries(hosts).map(([host, port]) => `MAP ${host} 127.0.0.1:${port}`).join(",");
    // Chromium refuses to sandbox as root, for example in a container.
    const args = [...Deno.uid() === 0 ? ["--no-sandbox"] : [], ...rules ? [`--host-resolver-rules=${rules}`] : []];
    const launch = () => chromium.launch({ executablePath: PROGRAM, args });
    return new TestBrowser(await launched.getOrInsertComputed(rules, launch));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const context of this.#contexts) await context.close();
  }

  async open(options: BrowserContextOptions = {}): Promise<Watched> {
    const context = await this.browser.newContext({
      viewport: SIZES.desktop,
      // The certificate of a test is that of no known authority.
      ignoreHTTPSErrors: true,
      ...options,
    });
    this.#contexts.push(context);
    const page = await context.newPage();
    // A wait of 30 s, the usual one, would only hide which step has failed.
    page.setDefaultTimeout(15_000);
    const problems: string[] = [];
    page.on("console", (message) => {
      // A refused request is shown in the console; the test that provokes it reads the status.
      if (!message.text().startsWith("Failed to load resource")) problems.push(message.text());
    });
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("dialog", (dialog) => {
      problems.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    return { page, context, problems };
  }
}

/** Waits until a part of a page says a text, because the page that the last click opened may still be on its way. */
export async function assertSays(page: Page, selector: string, text: string): Promise<void> {
  await page.locator(selector, { hasText: text }).first().waitFor();
}

/** Registers a test that needs a browser. */
export function browserTest(name: string, work: (t: Deno.TestContext) => Promise<void>): void {
  Deno.test({
    name,
    ignore: PROGRAM === null && !IS_REQUIRED,
    // The library keeps pipes of the browser open until the process ends.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: work,
  });
}

/** Checks a page against WCAG 2.2 A and AA. Only this check goes around the policy, to load its script. */
export async function assertAccessible(page: Page, what: string): Promise<void> {
  await page.evaluate(axe.source);
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(options: object): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    const { violations } = await axe.run({
      resultTypes: ["violations"],
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3).join(" | ")}`);
  });
  assertEquals(violations, [], what);
}

/** Checks that nothing is wider than the window. The strip of the navigation may scroll. */
export async function assertNoSidewaysScroll(page: Page, what: string): Promise<void> {
  const wide = await page.evaluate(() => {
    const { document, innerWidth } = globalThis as unknown as {
      document: { documentElement: { scrollWidth: number } };
      innerWidth: number;
    };
    const { scrollWidth } = document.documentElement;
    return scrollWidth > innerWidth ? scrollWidth : 0;
  });
  assertEquals(wide, 0, `${what} scrolls sideways`);
}

/**
 * How far parts of a page have moved by themselves since it was opened, to three digits, because a browser reports parts of
 * a pixel too: a line of text that moves by its own height is 0.002 in a window of 320 x 640, 0.001 in one of 1280 x 800.
 */
export async function layoutShift(page: Page): Promise<number> {
  // The timeline of a page does not hold these entries; only an observer is told of those of before.
  const shift = await page.evaluate(() =>
    new Promise<number>((resolve) => {
      const { PerformanceObserver } = globalThis as unknown as {
        PerformanceObserver: new (
          seen: (list: { getEntries(): { value: number; hadRecentInput: boolean }[] }) => void,
        ) => { observe(options: object): void };
      };
      new PerformanceObserver((list) => {
        resolve(list.getEntries().reduce((sum, { value, hadRecentInput }) => hadRecentInput ? sum : sum + value, 0));
      }).observe({ type: "layout-shift", buffered: true });
      setTimeout(() => resolve(0), 100);
    })
  );
  return Math.round(shift * 1000) / 1000;
}

/** As far as the functions below use it, which run in a page. */
interface Window {
  document: {
    body: { append(...nodes: unknown[]): void; innerHTML: string; setAttribute(name: string, value: string): void };
    createRange(): { createContextualFragment(html: string): unknown };
    createElement(name: string): Record<string, unknown>;
  };
  open(address: string): { closed: boolean; document: unknown } | null;
}

/**
 * What would run if a page wrote a text of another person as markup: inline code, a handler, a file of another address, a
 * string as markup. The list is empty when all of it is refused.
 *
 * @param file an address of the same server that is no file of the pages
 */
export async function whatMistakesRun(page: Page, file: string): Promise<string[]> {
  return await page.evaluate(async (file) => {
    const { document } = globalThis as unknown as Window;
    const ran: string[] = [];
    const attempt = (name: string, work: () => unknown) => {
      try {
        work();
        ran.push(name);
      } catch { /* refused */ }
    };
    const loads = (tag: string, address: string) =>
      new Promise<boolean>((resolve) => {
        const element = document.createElement(tag);
        Object.assign(element, { onload: () => resolve(true), onerror: () => resolve(false) });
        try {
          Object.assign(element, tag === "link" ? { rel: "stylesheet", href: address } : { src: address });
        } catch {
          return resolve(false);
        }
        document.body.append(element);
      });
    attempt("markup", () => document.createRange().createContextualFragment("<script>alert(1)</script>"));
    attempt("innerHTML", () => document.body.innerHTML = "<b>x</b>");
    attempt("script text", () => document.createElement("script").text = "alert(1)");
    attempt("handler", () => document.body.setAttribute("onclick", "alert(1)"));
    for (const tag of ["script", "link", "img"]) if (await loads(tag, file)) ran.push(`${tag} of another file`);
    return ran;
  }, file);
}

/** The opener of a page has its window and can read nothing of it. */
export const REACH_OF_NONE = ["closed to its opener", "no opener"];

/** What a page of another site reaches of a page that it opens by a click, and that page of it. */
export async function reachOfOpener(tab: Page, address: string): Promise<string[]> {
  const opened = tab.context().waitForEvent("page");
  const closed = await tab.evaluate(async (address) => {
    const window = (globalThis as unknown as Window).open(address);
    for (let i = 0; i < 200 && window?.closed === false; i++) await new Promise((done) => setTimeout(done, 25));
    return window === null || window.closed;
  }, address);
  const page = await opened;
  await page.waitForLoadState();
  const hasOpener = await page.evaluate("window.opener !== null");
  return [closed ? "closed to its opener" : "open to its opener", hasOpener ? "an opener" : "no opener"];
}
