/** The system of this machine: a program that svc starts holds up no command. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { thisHost } from "../../cli/autostart/control.ts";
import type { Context } from "../../cli/context.ts";
import { thisMachine } from "../../cli/platforms/local_machine.ts";
import { realSystem } from "../../cli/system.ts";
import { exchange, ExchangeError } from "../../shared/client/http.ts";
import { systemClock } from "../../shared/clock.ts";
import { SOON_MS, within } from "../support/process.ts";
import { HAS_OPENSSL, PrivateAuthority } from "../support/private_authority.ts";
import { tempFolder } from "../support/temp_folder.ts";
import { until } from "../support/until.ts";

/** Runs as long as its folder is there. */
const stays = (folder: string) => `while [ -e '${folder}' ]; do sleep 0.1; done`;

/** Stand-ins for `xdg-open`, which is a shell script: the browser outlives it, or it waits for the browser. */
const OPENERS = {
  "the opener leaves its browser behind": (folder: string) => `${stays(folder)} &`,
  "the opener waits for its browser": (folder: string) => `${stays(folder)}; :`,
};

for (const [what, script] of Object.entries(OPENERS)) {
  Deno.test({
    name: `a page counts as opened while its browser runs: ${what}`,
    ignore: Deno.build.os !== "linux",
    // The stand-in outlives the test, as a browser outlives the command.
    sanitizeOps: false,
    sanitizeResources: false,
    async fn() {
      await using temp = await tempFolder();
      const folder = temp.path;
      const before = { PATH: Deno.env.get("PATH") ?? "", DISPLAY: Deno.env.get("DISPLAY") };
      try {
        await Deno.writeTextFile(`${folder}/xdg-open`, `#!/bin/sh\n${script(folder)}\n`, { mode: 0o755 });
        Deno.env.set("PATH", `${folder}:${before.PATH}`);
        Deno.env.set("DISPLAY", ":0");
        const opening = Promise.resolve(realSystem("0").openFile?.(`${folder}/page.html`));
        assertEquals(await within(SOON_MS, "the page is opened", opening), true);
      } finally {
        Deno.env.set("PATH", before.PATH);
        if (before.DISPLAY === undefined) Deno.env.delete("DISPLAY");
        else Deno.env.set("DISPLAY", before.DISPLAY);
      }
    },
  });
}

/** A clock on which a program has `ms` instead of its usual time. */
const clockOf = (ms: number) => ({ ...systemClock, after: (_: number, fn: () => void) => systemClock.after(ms, fn) });

Deno.test({
  name: "a program that leaves another one behind is waited for no longer than any other",
  ignore: Deno.build.os === "windows",
  sanitizeResources: false,
  async fn() {
    await using folder = await tempFolder();
    const run = (ms: number, script: string) => {
      const machine = thisMachine({ clock: clockOf(ms), env: () => undefined } as unknown as Context);
      return within(SOON_MS, `the end of ${script}`, machine.run("sh", ["-c", script]));
    };
    let printed: string | null = null;
    // A busy machine needs longer for the script itself.
    for (let ms = 200; printed === null && ms < SOON_MS; ms *= 2) {
      printed = await run(ms, `${stays(folder.path)} & echo one 1.0`);
    }
    assertEquals(printed, "one 1.0\n");
    assertEquals(await run(200, `echo two 2.0; ${stays(folder.path)}; :`), null);
    assertEquals(await run(SOON_MS, "echo three 3.0"), "three 3.0\n");
  },
});

Deno.test({
  name: "a service manager that hangs, or prints without an end, holds up no command",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using folder = await tempFolder();
    const run = (ms: number, script: string) => {
      const host = thisHost({ clock: clockOf(ms), env: () => folder.path } as unknown as Context);
      return within(SOON_MS, `the end of ${script}`, host.run("sh", ["-c", script]));
    };
    assertEquals(await run(SOON_MS, "echo one; echo two >&2; exit 3"), { code: 3, stdout: "one\n", stderr: "two\n" });
    const hung = await run(200, `${stays(folder.path)}; :`);
    assertEquals([hung?.code, hung?.stderr], [137, "it did not end within 60 s"]);
    for (const end of ["", " >&2"]) {
      const endless = await run(SOON_MS, `yes ${end}`);
      assertEquals((endless?.stdout ?? "").length + (endless?.stderr ?? "").length, 1024 ** 2);
    }
  },
});

Deno.test({
  name: "a program of --exec does not start when the connector has ended already",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using folder = await tempFolder();
    const program = `${folder.path}/program`;
    await Deno.writeTextFile(program, `#!/bin/sh\necho started >"${folder.path}/started"\n`, { mode: 0o755 });
    const run = realSystem("0").exec?.run(program, {}, AbortSignal.abort());
    await assertRejects(() => run ?? Promise.resolve(0), DOMException);
    assertEquals(await Array.fromAsync(Deno.readDir(folder.path), ({ name }) => name), ["program"]);
  },
});

/** Ends a connection that may have ended already. */
function tryClose(connection: Deno.Conn): void {
  try {
    connection.close();
  } catch {
    // It has ended.
  }
}

/** A server that answers the first request of each connection, and ends the connection at the second one. */
function endingServer() {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const requests: string[] = [], open: Deno.Conn[] = [];
  let connections = 0;
  const serve = async (connection: Deno.Conn) => {
    const name = ++connections, bytes = new Uint8Array(65_536);
    for (let n = 1; n <= 2; n++) {
      let text = "";
      while (!/\r\n\r\n(?:hello)?$/.test(text) || text.includes("POST") && !text.endsWith("hello")) {
        const length = await connection.read(bytes);
        if (length === null) return connection.close();
        text += new TextDecoder().decode(bytes.subarray(0, length));
      }
      requests.push(`${text.split(" ")[0]} ${name}`);
      if (n === 1) await connection.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    }
    connection.close();
  };
  const served = (async () => {
    for await (const connection of listener) {
      open.push(connection);
      void serve(connection).catch(() => {});
    }
  })();
  const url = `http://127.0.0.1:${(listener.addr as Deno.NetAddr).port}/`;
  const close = async () => {
    listener.close();
    await served;
    for (const connection of open) tryClose(connection);
  };
  return { url, requests, close };
}

Deno.test({
  name: "a request is sent once, also when a connection that is kept ends before its answer",
  // Connections that are kept end with the process.
  sanitizeResources: false,
  async fn() {
    const { url, requests, close } = endingServer();
    const send = async (method: "GET" | "POST", keepsConnection: boolean, body = "hello") => {
      const request = { method, url, timeoutMs: SOON_MS, maxBytes: 10, onTooLarge: "fail", keepsConnection } as const;
      const { fetch } = system, more = method === "POST" ? { body } : {};
      return (await exchange({ fetch, clock: systemClock }, { ...request, ...more })).status;
    };
    const system = realSystem("0");
    assertEquals(await send("POST", true), 200);
    await assertRejects(() => send("POST", true), ExchangeError);
    assertEquals(requests, ["POST 1", "POST 1"]);
    for (let n = 0; n < 2; n++) assertEquals(await send("GET", true), 200);
    for (let n = 0; n < 2; n++) assertEquals(await send("POST", false), 200);
    assertEquals(requests.slice(2), ["GET 2", "GET 3", "POST 4", "POST 5"]);
    await close();
  },
});

Deno.test({
  name: "a request over TLS shares no connection with one that waits, because that one may be dead",
  ignore: !HAS_OPENSSL,
  sanitizeResources: false,
  async fn() {
    await using folder = await tempFolder();
    const authority = await PrivateAuthority.make(folder.path);
    const certificate = await authority.issue("server", "IP:127.0.0.1");
    const peers = new Set<number>();
    const answer = async (request: Request, { remoteAddr: { port } }: Deno.ServeHandlerInfo<Deno.NetAddr>) => {
      peers.add(port);
      const isSlow = await request.text() === "slow";
      if (isSlow) await over.promise;
      return new Response(null);
    };
    const over = Promise.withResolvers<void>();
    const server = Deno.serve({ hostname: "127.0.0.1", port: 0, ...certificate, onListen: () => {} }, answer);
    const fetch = realSystem("0").trusting?.(await Deno.readTextFile(authority.path));
    assert(fetch !== undefined);
    const send = async (body: string) => {
      const url = `https://127.0.0.1:${server.addr.port}/`;
      const request = { url, timeoutMs: SOON_MS, maxBytes: 10, onTooLarge: "fail", keepsConnection: true } as const;
      return (await exchange({ fetch, clock: systemClock }, { ...request, method: "POST", body })).status;
    };
    const slow = send("slow");
    await until(() => peers.size === 1);
    for (let n = 0; n < 3; n++) assertEquals(await send("fast"), 200);
    // The fast ones have used the second connection one after the other.
    assertEquals(peers.size, 2);
    over.resolve();
    assertEquals(await slow, 200);
    await server.shutdown();
  },
});
