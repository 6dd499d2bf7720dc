/** `svc admin open`: the address goes to the browser by a private file, or to the terminal, and never has an API key. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { REGISTRY_URL, World } from "../../support/world.ts";
import { bootstrapped } from "../cli_world.ts";

const ADDRESS = new RegExp(`${REGISTRY_URL}/console/open/[A-Za-z0-9_-]{43}`);

Deno.test("the console's address is printed with a QR code, and without the console the error says how to start it", async () => {
  await using world = await World.open({ registry: { console: true } });
  await using machine = await bootstrapped(world);
  const printed = await machine.svc("admin", "open", "--print");
  assertEquals(printed.code, 0);
  assertStringIncludes(printed.stdout, "It works once, for 1 min");
  assert(ADDRESS.test(printed.stdout) && /[█▀▄]{5}/.test(printed.stdout));
  const { url, expiresAt } = await machine.json("admin", "open") as unknown as { url: string; expiresAt: string };
  assert(ADDRESS.test(url));
  assertEquals(Date.parse(expiresAt), world.clock.now() + 60_000);
  assert(!/svc_pat_/.test(printed.stdout + url));

  await using plain = await World.open();
  await using other = await bootstrapped(plain);
  const refused = await other.svc("admin", "open");
  assertEquals([refused.code === 0, refused.stdout], [false, ""]);
  assertStringIncludes(refused.stderr, "CONSOLE_OFF: The console is off.");
  assertStringIncludes(refused.stderr, "svc serve --console");
});
