/** Every connection of the programs of svc, as the kernel sees it: none leaves this machine (needs strace). */
import { assertEquals } from "@std/assert";
import { isInstalled } from "../support/installed.ts";
import { tempFolder } from "../support/process.ts";
import { cases, runCase } from "../support/quiet_runtime.ts";

const HAS_STRACE = await isInstalled("strace", "-V");

Deno.test({
  name: "svc --version, demo, serve and task dev connect to this machine only",
  ignore: !HAS_STRACE,
  async fn(t) {
    await using place = await tempFolder();
    for (const one of await cases(place.path)) {
      await t.step(one.name, async () => {
        const log = `${place.path}/calls`;
        await runCase(one, {}, ["strace", "-D", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg", "-o", log]);
        const lines = (await Deno.readTextFile(log)).split("\n");
        const other = lines.filter((line) => /AF_INET6?\b/.test(line) && !/inet_addr\("127\.|"::1"/.test(line));
        assertEquals(other, []);
      });
    }
  },
});
