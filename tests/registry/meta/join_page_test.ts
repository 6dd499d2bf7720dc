/** The page behind a join link (D-168): the same for every link, without a script, with strict headers. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { openRegistry } from "../../support/registry_world.ts";
import { REGISTRY_URL } from "../../support/world.ts";

Deno.test("the join page says how to join, has no script and loads only the style of its own origin", async () => {
  await using w = await openRegistry();
  const response = await w.ask("GET", "/join");
  const page = await response.text();
  assertEquals(response.status, 200);
  for (const text of ["svc join 'ADDRESS'", "Install svc", "part after", '<html lang="en">']) {
    assertStringIncludes(page, text);
  }
  assertEquals(page.match(/<h1>/g)?.length, 1);
  assert(!/<script|<style|style=|\son\w+=|javascript:|https?:\/\//i.test(page));
  assertEquals([...page.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, at]) => at), ["/docs/style.css"]);
  await (await w.ask("GET", "/docs/style.css")).body?.cancel();
});

Deno.test("the join page has the headers of a page for people, also for HEAD", async () => {
  await using w = await openRegistry();
  const get = await w.ask("GET", "/join"), head = await w.ask("HEAD", "/join");
  const wanted = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; " +
      "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
  };
  for (const { headers } of [get, head]) {
    for (const [name, value] of Object.entries(wanted)) assertEquals(headers.get(name), value, name);
    assertEquals([headers.get("Set-Cookie"), headers.get("Access-Control-Allow-Origin")], [null, null]);
  }
  assertEquals(await head.text(), "");
  assertEquals(Number(head.headers.get("Content-Length")), (await get.arrayBuffer()).byteLength);
});

Deno.test("the join page repeats nothing of the request", async () => {
  await using w = await openRegistry();
  const plain = await (await w.ask("GET", "/join")).text();
  const asked = await w.fetch(`${REGISTRY_URL}/join?next=<script>alert(1)</script>`, {
    headers: { Host: "evil.example", "X-Forwarded-Host": "evil.example", Referer: "https://evil.example" },
  });
  assertEquals(await asked.text(), plain);
});
