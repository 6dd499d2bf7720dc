/**
 * Shows the address that a request counts for (D-49): the socket's peer, or the right-most untrusted hop behind a
 * trusted proxy, with one bucket for a /64 and one for all unknown addresses. A header of any other peer is ignored.
 */
import { assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { clientBucket, TrustedProxies } from "../../../../shared/server/http/client_ip.ts";
import { steps } from "../../../support/steps.ts";

const TRUSTED = new TrustedProxies(["10.0.0.0/8", "192.0.2.9", "2001:db8:f::/48", "::1"]);

function bucket(address: string | null, forwardedFor: string | null = null, trusted = TRUSTED): string {
  return clientBucket({ from: "socket", address }, forwardedFor, trusted);
}

Deno.test("the client bucket is the same for every spelling of an address and for a /64", async (t) => {
  const cases: [name: string, addresses: string[]][] = [
    ["a /64", ["2001:db8::1", "2001:db8:0:0::ffff", "2001:0DB8:0000:0000:a:b:c:d", "2001:db8::dead:beef:0:1"]],
    ["zero groups", ["::", "::2", "0:0:0:0:0:0:0:3", "::7f00:1"]],
    ["a zone and brackets", ["fe80::1", "fe80::1%eth0", "[fe80::2]"]],
    ["the port of a balancer", ["192.0.2.1", "192.0.2.1:4711", "[::ffff:192.0.2.1]:80"]],
    ["the port of a balancer, IPv6", ["2001:db8::1", "[2001:db8::1]:4711"]],
    ["an IPv4-mapped address", ["192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201", "0:0:0:0:0:ffff:192.0.2.1"]],
  ];
  await steps(t, cases, ([, addresses]) => {
    for (const address of addresses) assertEquals(bucket(address), bucket(addresses[0] ?? ""), address);
  });
});

Deno.test("the client bucket differs for different addresses", () => {
  const apart = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1", "2001:db9::1", "::1"];
  assertEquals(new Set(apart.map((address) => bucket(address))).size, apart.length);
  for (const other of ["::fffe:c000:201", "::192.0.2.1"]) assertNotEquals(bucket(other), bucket("192.0.2.1"));
  assertNotEquals(bucket("::ffff:192.0.2.1"), bucket("::ffff:192.0.2.2"));
});

Deno.test("the client bucket of a call within the process is its own", () => {
  assertEquals(clientBucket({ from: "process" }, "203.0.113.1", TRUSTED), "process");
  assertNotEquals(bucket("process"), "process");
});

Deno.test("trusted proxies are addresses and blocks in every spelling", async (t) => {
  const cases: [block: string, inside: string[], outside: string[]][] = [
    ["192.0.2.7", ["192.0.2.7", "::ffff:192.0.2.7"], ["192.0.2.8", "::1"]],
    ["192.0.2.0/24", ["192.0.2.0", "192.0.2.255"], ["192.0.3.0", "192.0.1.255"]],
    ["128.0.0.0/1", ["128.2.3.4", "255.255.255.255"], ["127.0.0.1", "2001:db8::1", "not an address", ""]],
    ["10.1.2.3/32", ["10.1.2.3"], ["10.1.2.2"]],
    ["2001:db8::/32", ["2001:db8::1", "2001:0DB8:ffff::", "2001:db8::1%eth0"], ["2001:db9::1", "10.0.0.1"]],
    ["::1", ["::1", "0:0:0:0:0:0:0:1", "[::1]"], ["::2", "127.0.0.1"]],
  ];
  await steps(t, cases, ([block, inside, outside]) => {
    const trusted = new TrustedProxies([block]);
    for (const address of inside) assertEquals(trusted.has(address), true, address);
    for (const address of outside) assertEquals(trusted.has(address), false, address);
  });
});

Deno.test("trusted proxies are refused when they are not addresses or blocks", async (t) => {
  const bad = [
    "",
    "host",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/",
    "10.0.0.0/8/8",
    "0.0.0.0/0",
    "::/0",
    "::/129",
    "10.0.0",
    "10.0.0.0/a",
    "*",
  ];
  for (const block of bad) {
    await t.step(
      block || "empty",
      () => void assertThrows(() => new TrustedProxies(["10.0.0.1", block]), TypeError, block),
    );
  }
});
