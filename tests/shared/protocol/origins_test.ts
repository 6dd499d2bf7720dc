/** Shows which origins can be those of another server (D-280), and that a text has at most one spelling as an origin. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { isForeignOrigin, isOrigin, mayPair } from "../../../shared/protocol/origins.ts";
import { webAddress } from "./arbitraries.ts";

Deno.test("another server is an https name without port, and on a trial machine a loopback name", () => {
  const cases: [origin: string, anywhere: boolean, local: boolean][] = [
    ["https://b.example", true, true],
    ["https://b.example:8443", false, false],
    ["https://b.example/", false, false],
    ["https://B.example", false, false],
    ["https://b", false, false],
    ["https://192.0.2.1", false, false],
    ["https://b;say-'yes'.example", false, false],
    ["https://b..example", false, false],
    ["https://*.example", false, false],
    ["https://[::1]", false, false],
    ["http://b.example", false, false],
    ["http://127.0.0.2:8787", false, true],
    ["http://localhost:8787", false, true],
    ["http://10.0.0.1:8787", false, false],
    ["ws://b.example", false, false],
    [`https://${"b".repeat(200)}.example`, false, false],
  ];
  for (const [origin, anywhere, local] of cases) {
    assertEquals([isForeignOrigin(origin, "production"), isForeignOrigin(origin, "local")], [anywhere, local], origin);
  }
  fc.assert(fc.property(fc.oneof(fc.string(), webAddress), (text) => {
    if (isOrigin(text)) assertEquals(new URL(text).origin, text);
  }));
});

Deno.test("two servers pair with https names, or both on loopback for a trial, but not on one host", () => {
  const [a, b, here, there] = ["https://a.example", "https://b.example", "http://127.0.0.2:1", "http://127.0.0.3:1"];
  for (
    const [own, other, may] of [[a, b, true], [here, there, true], [a, here, false], [here, a, false], [
      here,
      "http://127.0.0.2:2",
      false,
    ]] as const
  ) {
    assertEquals([mayPair(own, other), mayPair(own, "https://c.example:8443")], [may, false], `${own} ${other}`);
  }
});
