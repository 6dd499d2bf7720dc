/**
 * Who listens at a port (D-397): decided from the tables of Linux and from the output of lsof, and looked up for a real
 * socket of this process.
 */
import { assertEquals } from "@std/assert";
import { listeningSockets } from "../../../shared/client/system.ts";
import { isOfOtherUser, otherListens, type PortSystem } from "../../../shared/client/port_owner.ts";

const ME = 1000, OTHER = 1001, PORT = "4965";
const V4 = "0100007F", ANY = "00000000", V6 = "00000000000000000000000001000000", ANY_V6 = "0".repeat(32);
const MAPPED = "0000000000000000FFFF00000100007F";

/** A row of the tables. */
function row(address: string, uid: number, { state = "0A", port = PORT } = {}): string {
  const remote = `${"0".repeat(address.length)}:0000`;
  return `   3: ${address}:${port} ${remote} ${state} 00000000:00000000 00:00000000 00000000  ${uid}        0 754223 1 0 100 0`;
}

Deno.test("the owner of the socket that gets the connection decides on Linux", async (t) => {
  const cases: [what: string, hostname: string, rows: string[], isOther: boolean][] = [
    ["no listener", "127.0.0.1", [], false],
    ["this user", "127.0.0.1", [row(V4, ME)], false],
    ["root", "127.0.0.1", [row(V4, 0)], false],
    ["another user", "127.0.0.1", [row(V4, OTHER)], true],
    ["another user on every address", "127.0.0.1", [row(ANY, OTHER)], true],
    ["another user on every address of both families", "127.0.0.1", [row(ANY_V6, OTHER)], true],
    ["another user on the mapped address", "127.0.0.1", [row(MAPPED, OTHER)], true],
    ["a machine with the other byte order", "127.0.0.1", [row("7F000001", OTHER)], true],
    ["this user, before another on every address", "127.0.0.1", [row(ANY_V6, OTHER), row(V4, ME)], false],
    ["another user, before this on every address", "127.0.0.1", [row(ANY, ME), row(V4, OTHER)], true],
    ["both share the address", "127.0.0.1", [row(V4, ME), row(V4, OTHER)], true],
    ["another address of the machine", "127.0.0.2", [row(V4, OTHER)], false],
    ["a second loopback address", "127.0.0.2", [row("0200007F", OTHER)], true],
    ["another port", "127.0.0.1", [row(V4, OTHER, { port: "4966" })], false],
    ["a connection", "127.0.0.1", [row(V4, OTHER, { state: "01" })], false],
    ["IPv6", "[::1]", [row(V6, OTHER)], true],
    ["IPv6 on every address", "[::1]", [row(ANY_V6, OTHER)], true],
    ["IPv4 is not IPv6", "[::1]", [row(V4, OTHER), row(ANY, OTHER)], false],
    ["a name with IPv4", "localhost", [row(V4, OTHER)], true],
    ["a name with IPv6", "localhost", [row(V4, ME), row(V6, OTHER)], true],
    ["a name with this user in both", "localhost", [row(V4, ME), row(V6, ME)], false],
    ["rows that are cut", "127.0.0.1", ["  sl  local_address", `3: ${V4}:${PORT}`, ""], false],
  ];
  for (const [what, hostname, rows, isOther] of cases) {
    await t.step(what, () => assertEquals(otherListens(rows.join("\n"), hostname, PORT, ME), isOther));
  }
});

/** A system that answers a look with fixed texts. */
function systemOf(more: Partial<PortSystem>): PortSystem {
  const unused = () => Promise.reject(new Error("unused"));
  return { os: "linux", uid: ME, read: unused, run: unused, reach: unused, ...more };
}

Deno.test("only addresses of this machine are looked up, by port, where there are users", async () => {
  const table = ["4965", "0050", "01BB"].map((port) => row(V4, OTHER, { port })).join("\n");
  const read = (path: string) => Promise.resolve(path === "/proc/net/tcp" ? table : null);
  const look = (url: string, more: Partial<PortSystem> = {}) => isOfOtherUser(systemOf({ read, ...more }), url);
  assertEquals(await look("http://127.0.0.1:18789/hooks"), true);
  assertEquals([await look("http://127.0.0.1"), await look("https://127.0.0.1")], [true, true]);
  assertEquals(await look("http://127.0.0.1:18790"), false);
  assertEquals([await look("http://192.0.2.1:80"), await look("http://host.example")], [false, false]);
  assertEquals(await look("http://127.0.0.1", { uid: null }), false);
  assertEquals(await look("http://127.0.0.1", { os: "windows" }), false);
  const unreadable = { read: () => Promise.resolve(null) };
  const asked: string[][] = [];
  const run = (command: string, args: string[]) => {
    asked.push([command, ...args]);
    return Promise.resolve(row(V4, OTHER));
  };
  assertEquals(await look("http://127.0.0.1:18789", { ...unreadable, run }), true);
  assertEquals(asked, [["grep", "-hs", ":4965 [0-9A-F]*:0000 0A ", "/proc/net/tcp", "/proc/net/tcp6"]]);
  assertEquals(await look("http://127.0.0.1:18789", { ...unreadable, run: () => Promise.resolve(null) }), false);
});

Deno.test("lsof decides on macOS, where a socket that it does not show and that answers is another user's", async (t) => {
  const cases: [what: string, output: string | null, answers: boolean, isOther: boolean][] = [
    ["this user", `p12\nu${ME}\n`, true, false],
    ["root, as root sees it", "p12\nu0\n", true, false],
    ["another user, as root sees it", `p12\nu${ME}\np13\nu${OTHER}\n`, true, true],
    ["not shown, and it answers", "", true, true],
    ["no listener", "", false, false],
    ["no lsof", null, true, false],
  ];
  for (const [what, output, answers, isOther] of cases) {
    await t.step(what, async () => {
      const more = { os: "darwin", run: () => Promise.resolve(output), reach: () => Promise.resolve(answers) };
      assertEquals(await isOfOtherUser(systemOf(more), "http://127.0.0.1:18789"), isOther);
    });
  }
});

Deno.test({
  name: "a real socket of this process is found with the functions of Deno and Node",
  ignore: Deno.build.os === "windows",
  async fn() {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    const seen = (uid: number | null, more: Partial<PortSystem> = {}) =>
      isOfOtherUser(systemOf({ os: Deno.build.os, uid, ...listeningSockets, ...more }), `http://127.0.0.1:${port}`);
    // Root is trusted, so a test that runs as root sees no other user here; tests/soak has one.
    const isRoot = Deno.uid() === 0;
    const unreadable = { read: () => Promise.resolve(null) };
    assertEquals([await seen(Deno.uid()), await seen(Deno.uid(), unreadable)], [false, false]);
    assertEquals([await seen(4_294_967_000), await seen(4_294_967_000, unreadable)], [!isRoot, !isRoot]);
    assertEquals(await listeningSockets.reach(`http://127.0.0.1:${port}`), true);
  },
});

Deno.test({
  name: "a look is not blind when another user has thousands of sockets at the port",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const text = await listeningSockets.run("head", ["-c", "2000000", "/dev/zero"]);
    assertEquals(text?.length, 2_000_000);
  },
});
