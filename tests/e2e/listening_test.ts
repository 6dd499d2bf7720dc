/** A listener in a process that runs out of files. */
import { assert, assertEquals } from "@std/assert";
import { ChildProcess } from "../support/child_process.ts";
import { eventually, SOON_MS, within } from "../support/process.ts";

/** Listens to a signal, as every program of svc does: Deno panics when it makes its first listener without a free file. */
const PROGRAM = `
Deno.addSignalListener("SIGINT", () => {});
import { listenOn } from ${JSON.stringify(import.meta.resolve("../../shared/listening.ts"))};
const onFailed = () => console.log("failed");
const answer = (request) => new Response("served " + new URL(request.url).pathname);
const { addr } = listenOn({ hostname: "127.0.0.1", port: 0, onFailed }, answer);
console.log("port " + addr.port);
`;

Deno.test({
  name: "a process whose files are all taken by silent connections serves again when they have gone",
  ignore: Deno.build.os === "windows",
  async fn() {
    const limited = ["-c", 'ulimit -n 100; exec "$@"', "sh", Deno.execPath(), "eval", "--quiet", PROGRAM];
    await using child = new ChildProcess(limited, {}, "sh");
    const [, port = ""] = await within(SOON_MS, "the program listens", child.stdout.match(/^port (\d+)$/m));
    const silent: Deno.Conn[] = [];
    try {
      while (!child.stdout.text.includes("failed")) {
        silent.push(await Deno.connect({ hostname: "127.0.0.1", port: Number(port) }));
        assert(silent.length < 1_000, child.printed);
      }
    } catch (error) {
      // The listener has failed: its port refuses for a moment, or closes a connection at once.
      const { ConnectionRefused, ConnectionReset, NotConnected } = Deno.errors;
      if (![ConnectionRefused, ConnectionReset, NotConnected].some((gone) => error instanceof gone)) throw error;
    }
    for (const connection of silent) connection.close();
    const answer = async () => await (await fetch(`http://127.0.0.1:${port}/`)).text();
    assertEquals(await eventually(SOON_MS, "an answer", () => answer().catch(() => undefined)), "served /");
    // A request whose URL cannot be read is refused, and printed nowhere.
    const raw = await Deno.connect({ hostname: "127.0.0.1", port: Number(port) });
    await raw.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n"));
    assert((await new Response(raw.readable).text()).startsWith("HTTP/1.1 400 "));
    assertEquals(child.stderr.text, "");
  },
});
