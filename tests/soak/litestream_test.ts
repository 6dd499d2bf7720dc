/**
 * Litestream copies the store of a running server, as operations.md says. Server and Litestream are killed while messages pass, and
 * the server goes on with the restored file. `-- --trials n` sets the number of kills.
 */
import { assert, assertEquals } from "@std/assert";
import { begunOf } from "../../proxy/schema/sender_record.ts";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import { ApiError } from "../support/agent_client.ts";
import { ChildProcess } from "../support/child_process.ts";
import { isInstalled } from "../support/installed.ts";
import { Connector, eventually, messageTo, newId, ROOT, Service, SOON_MS } from "../support/process.ts";
import { trials } from "../support/trials.ts";

const KILLS = trials(20);
/** What is acknowledged within this time before the kill may be lost. */
const SECOND_MS = 1_000;
const FIRST_COPY_MS = 2_000;
const SENT_MS = 2_000;
const TEXT = Deno.readTextFileSync(`${ROOT}/docs/operations.md`);

/** The block of operations.md for a subcommand, with other paths, as arguments of `sh`. */
function blockOf(subcommand: string, folder: string, backup: string): string[] {
  const blocks = [...TEXT.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
  const block = blocks.find((one) => one.includes(`litestream ${subcommand} `));
  assert(block, `operations.md has no block for litestream ${subcommand}`);
  const typed = block.replaceAll(".data/", `${folder}/`).replace("/var/backups/svc", backup);
  return ["-euc", `cd ${folder}\n${typed.replace(/^litestream/m, "exec litestream")}`];
}

Deno.test({
  name: `a store restored from Litestream lost nothing that was acknowledged a second before ${KILLS} kills`,
  ignore: !await isInstalled("litestream"),
  async fn() {
    await using service = await Service.open();
    const { a, b } = await service.agents();
    const folder = service.folders[0]?.path ?? "", path = `${folder}/svc.kv`;
    let checked = 0, lostLater = 0, refused = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      const backup = `${folder}/backup-${kill}`;
      const copying = new ChildProcess(blockOf("replicate", folder, backup), {}, "sh");
      await eventually(SOON_MS, "a first copy", () => Deno.stat(backup).then(() => true, () => undefined));
      const connector = await Connector.open(service.place, b);
      const acknowledged: { requestId: string; at: number }[] = [];
      const began = performance.now();
      while (performance.now() - began < FIRST_COPY_MS + SENT_MS * Math.random()) {
        const requestId = newId();
        const sent = await a.client.sendMessage({ ...messageTo(b), requestId }).catch((error) => error);
        if (sent instanceof ApiError) {
          assertEquals(sent.status, 503, sent.message);
          refused++;
          continue;
        }
        acknowledged.push({ requestId, at: performance.now() });
      }
      const killed = performance.now();
      await Promise.all([service.server.end("SIGKILL"), copying.end("SIGKILL")]);
      await connector.closed;
      for (const name of ["svc.kv", "svc.kv-wal", "svc.kv-shm"]) await Deno.remove(`${folder}/${name}`).catch(() => {});
      await Deno.remove(`${folder}/.svc.kv-litestream`, { recursive: true });
      const restored = await new Deno.Command("litestream", { args: ["restore", "-o", path, `file://${backup}`] })
        .output();
      assert(restored.success, new TextDecoder().decode(restored.stderr));
      const kv = await Deno.openKv(path);
      const [sender, recipient] = [a.identity.did, b.identity.did];
      const begun = begunOf(await kv.get(KEYS.sender(sender)));
      for (const { requestId, at } of acknowledged) {
        const isThere = begun.some((one) => one.requestId === requestId) ||
          (await kv.get(KEYS.delivery(recipient, requestId, sender))).value !== null;
        if (at <= killed - SECOND_MS) {
          checked++;
          assert(isThere, `kill ${kill}: a message acknowledged ${Math.round(killed - at)} ms before it is lost`);
        } else if (!isThere) lostLater++;
      }
      kv.close();
      await service.restart(0);
      await Deno.remove(backup, { recursive: true });
    }
    console.log(
      `${KILLS} kills: ${checked} messages of more than a second before are there; ${lostLater} of the last second are lost; ${refused} refused`,
    );
    assert(checked > KILLS);
    assertEquals((await (await fetch(`${service.url}/health`)).json()).status, "ok");
  },
});
