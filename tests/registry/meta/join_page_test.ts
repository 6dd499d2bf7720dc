/** The pages without a session: what they say, and the same strict headers on each of them. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { consoleRefusal } from "../../../registry/console/console.ts";
import { joinPage } from "../../../registry/meta/join_page.ts";
import { REGISTRY_ROUTES } from "../../../registry/routes.ts";
import { openRegistry } from "../../support/registry_world.ts";
import { REGISTRY_URL, World } from "../../support/world.ts";

Deno.test("the join page says how to join, also without a script, and that an address has no invite", async () => {
  await using w = await openRegistry();
  const page = await (await w.ask("GET", "/join")).text();
  for (
    const text of [
      "svc join &#39;ADDRESS&#39; --start</code>",
      "Install svc",
      "part after",
      '<div class="stack" data-when="none" hidden>',
      "also pairs your agent",
    ]
  ) assertStringIncludes(page.replaceAll("'", "&#39;"), text);
});

Deno.test("a server without TLS has a console and a plain join command only where other machines cannot reach it", () => {
  const rows: [origin: string, isOpen: boolean][] = [
    ["http://localhost:8787", true],
    ["http://127.0.0.1:8787", true],
    ["http://[::1]:8787", true],
    ["http://10.0.0.5:8787", false],
    ["https://svc.example", true],
  ];
  for (const [origin, isOpen] of rows) {
    assertEquals(consoleRefusal({ registryUrl: origin, environment: "local" }) === null, isOpen, origin);
    assertEquals(String(joinPage({ origins: [origin] }).body).includes("--start --allow-insecure"), !isOpen, origin);
  }
});

Deno.test("a page without a session loads only the files of its origin, and asks for nothing", async (t) => {
  await using w = await openRegistry();
  for (const { path } of REGISTRY_ROUTES.filter(({ isPage, path }) => isPage && !/\.(?:css|js|svg)$/.test(path))) {
    await t.step(path, async () => {
      const get = await w.ask("GET", path), head = await w.ask("HEAD", path);
      const page = await get.text();
      const wanted = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
          "connect-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; " +
          "require-trusted-types-for 'script'; trusted-types 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": path === "/join" ? "no-store" : "public, max-age=300",
      };
      for (const { headers } of [get, head]) {
        for (const [name, value] of Object.entries(wanted)) assertEquals(headers.get(name), value, name);
        assertEquals([headers.get("Set-Cookie"), headers.get("Access-Control-Allow-Origin")], [null, null]);
      }
      assertEquals(page.match(/<h1/g)?.length, path === "/join" ? 2 : 1);
      assert(
        !/<style|style=|\son\w+=|javascript:|<script(?! src="\/page\.js\?v=[\w-]{8}" defer><\/script>)/i.test(page),
      );
      assert(page.length < 51_200, `${page.length} characters`);
    });
  }
});

Deno.test("the first page names the command of the console where there is one, and so does the console's address", async () => {
  for (const console of [true, false]) {
    await using w = await World.open({ registry: { console } });
    const textAt = async (path: string) => {
      const { host } = new URL(REGISTRY_URL);
      return await (await w.fetch(new URL(path, REGISTRY_URL), { headers: { Host: host } })).text();
    };
    const command = console ? "svc admin open" : "svc admin people list";
    assertStringIncludes(await textAt("/"), `<code>${command}</code>`);
    const bare = await textAt("/console");
    assertEquals([bare.includes("svc admin open"), bare.includes("session is over")], [console, false]);
  }
});

Deno.test("the files of the pages are kept permanently at an address with their version, and are small", async () => {
  await using w = await openRegistry();
  const page = await (await w.ask("GET", "/")).text();
  const bounds: Record<string, number> = { "/page.css": 12_288, "/page.js": 4096, "/icon.svg": 1024 };
  for (const [, address = ""] of page.matchAll(/(?:href|src)="([^"]*\?v=[^"]*)"/g)) {
    const answer = await w.ask("GET", address);
    const path = address.split("?")[0] ?? "";
    assertEquals([answer.status, answer.headers.get("X-Content-Type-Options")], [200, "nosniff"]);
    assertMatch(answer.headers.get("Cache-Control") ?? "", /immutable/);
    const bytes = (await answer.bytes()).length;
    assert(bytes <= (bounds[path] ?? 0), `${path} has ${bytes} bytes`);
    delete bounds[path];
  }
  assertEquals(bounds, {});
});

Deno.test("the join page repeats nothing of the request", async () => {
  await using w = await openRegistry();
  const plain = await (await w.ask("GET", "/join")).text();
  const asked = await w.fetch(`${REGISTRY_URL}/join?next=<script>alert(1)</script>`, {
    headers: { Host: "evil.example", "X-Forwarded-Host": "evil.example", Referer: "https://evil.example" },
  });
  assertEquals(await asked.text(), plain);
});
