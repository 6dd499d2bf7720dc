/**
 * No program of svc lets the runtime look for its own updates, because such a look-up names this machine to a server that its
 * user did not choose. A proxy of the environment records every request that leaves this machine;
 * `tests/soak/quiet_runtime_test.ts` records every connection.
 */
import { assertEquals } from "@std/assert";
import { isInstalled } from "../support/installed.ts";
import { tempFolder } from "../support/process.ts";
import { cases, runCase } from "../support/quiet_runtime.ts";
import { RecordingProxy } from "../support/recording_proxy.ts";
import { longTest } from "../support/trials.ts";

longTest({
  name: "the runtime of svc --version, demo, serve and task dev sends no request to another machine",
  ignore: !await isInstalled("node"),
  async fn() {
    await using place = await tempFolder();
    const seen = await Promise.all((await cases(place.path)).map(async (one) => {
      await using proxy = new RecordingProxy();
      await runCase(one, proxy.env);
      return [one.name, proxy.seen];
    }));
    assertEquals(seen.filter(([, requests]) => requests?.length !== 0), []);
  },
});
