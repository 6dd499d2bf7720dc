/**
 * What a program can do that reaches the port between instances and cannot read the store (D-370): it opens no link, and costs a
 * local pair no more than its CPU alone. The control is a process that uses as much CPU. Prints the figures of each attack.
 */
import { assert, assertEquals } from "@std/assert";
import { createHmac } from "node:crypto";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import type { InstanceLease } from "../../proxy/schema/records.ts";
import { ChildProcess } from "../support/child_process.ts";
import { HealthPoller } from "../support/health_poller.ts";
import { INSTANCE_ATTACKS, type InstanceJob } from "../support/hostile_instance.ts";
import { Connector, eventually, messageTo, newId, Service, SOON_MS } from "../support/process.ts";
import { cpuSeconds, heldBytes, stopwatch } from "../support/process_figures.ts";

/** Attack and control take turns, because the load of a shared machine changes; the least time of each counts. */
const TURNS = 3;
const RUN_SECONDS = 4;
const MAX_RATIO = 3;
/** A time below counts as this: three times a lucky millisecond is no sign of an attack. */
const FLOOR_MS = 50;
const MAX_GROWTH_BYTES = 128 * 2 ** 20;

interface Figures {
  healthMs: number;
  p99Ms: number;
}

/** Opens a link as another instance does that reads the store. Returns it with the path of its request. */
async function linked(storePath: string): Promise<{ at: string; used: string; socket: WebSocket }> {
  using kv = await Deno.openKv(storePath);
  const [entry] = await Array.fromAsync(kv.list<InstanceLease>({ prefix: KEYS.instances() }));
  const { at, key } = entry?.value.link ?? { at: "", key: "" };
  const challenge = await (await fetch(`http://${at}/challenge`)).text();
  const [from, nonce] = [newId(), newId()];
  const about = ["svc link", "opens", from, String(entry?.key.at(-1)), challenge, nonce].join("\n");
  const proof = createHmac("sha256", key).update(about).digest("base64url");
  const used = `/link?${new URLSearchParams({ from, challenge, nonce, proof })}`;
  const socket = new WebSocket(`ws://${at}${used}`);
  await new Promise((resolve, reject) => {
    socket.onmessage = resolve;
    socket.onerror = reject;
  });
  return { at, used, socket };
}

for (const attack of INSTANCE_ATTACKS) {
  Deno.test(`a program at the port between instances opens no link, and slows a local pair no more than its CPU: ${attack}`, async () => {
    await using service = await Service.open({ INSTANCE_LISTEN: "127.0.0.1:0", METRICS_LISTEN: "127.0.0.1:0" });
    const { a, b } = await service.agents();
    const connector = await Connector.open(service.place, b);
    const folder = service.folders[0]?.path ?? "";
    const { at, used, socket } = await linked(`${folder}/svc.kv`);
    // A proven link answers its beats, or the server would end it during the test.
    const beats = setInterval(() => socket.send(""), 2_000);
    using poller = new HealthPoller(service.url, service.server.pid);
    const measure = async () => {
      await poller.take();
      const times: number[] = [];
      for (let sent = 0; sent < RUN_SECONDS * 20; sent++) {
        const passed = stopwatch(service.server.pid), began = performance.now();
        const { delivered } = await a.client.sendMessage(messageTo(b));
        assert(delivered);
        times.push(passed());
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, 50 - (performance.now() - began))));
      }
      times.sort((one, other) => one - other);
      return { healthMs: Math.max(...await poller.take()), p99Ms: times[Math.floor(times.length * 0.99)] ?? 0 };
    };
    const beside = async (more: Pick<InstanceJob, "attack" | "share">) => {
      await Deno.writeTextFile(`${folder}/job.json`, JSON.stringify({ at, used, ...more } satisfies InstanceJob));
      await using child = new ChildProcess([
        ...["run", "--quiet", "--no-prompt", "--no-check", "-A", "tests/support/hostile_instance.ts"],
        `${folder}/job.json`,
      ]);
      await eventually(SOON_MS, "the attack begins", () => child.stdout.text.includes("started") || undefined);
      const before = cpuSeconds(`/proc/${child.pid}`), began = performance.now();
      const figures = await measure();
      const share = (cpuSeconds(`/proc/${child.pid}`) - before) / (performance.now() - began) * 1000;
      await child.end();
      return { ...figures, share, answers: JSON.parse(child.stdout.text.trim().split("\n").at(-1) ?? "{}") };
    };
    await measure();
    const before = heldBytes(service.server.pid);
    const turns: { attacked: Figures; control: Figures; answers: Record<string, number> }[] = [];
    let grownBytes = 0;
    for (let turn = 0; turn < TURNS; turn++) {
      const attacked = await beside({ attack, share: 0 });
      grownBytes = Math.max(grownBytes, heldBytes(service.server.pid) - before);
      const control = await beside({ attack: "burn", share: attacked.share });
      turns.push({ attacked, control, answers: attacked.answers });
    }
    const least = (of: "attacked" | "control", name: keyof Figures) => Math.min(...turns.map((turn) => turn[of][name]));
    const figures = { attack, turns, grownMiB: Math.round(grownBytes / 2 ** 20) };
    console.log(JSON.stringify(figures));
    for (const name of ["healthMs", "p99Ms"] as const) {
      const ratio = least("attacked", name) / Math.max(least("control", name), FLOOR_MS);
      assert(ratio <= MAX_RATIO, `${name}: ${ratio.toFixed(2)} times the control, ${JSON.stringify(figures)}`);
    }
    assert(grownBytes <= MAX_GROWTH_BYTES, JSON.stringify(figures));
    assertEquals(turns.flatMap(({ answers }) => Object.keys(answers)).filter((status) => status === "101"), []);
    const [, listener = ""] = service.server.printed.match(/metrics on (http:\S+)\/metrics/) ?? [];
    const metrics = await (await fetch(`${listener}/metrics`)).text();
    assert(metrics.includes("\nsvc_instance_links 1\n"), "the proven link is the only one");
    assertEquals(socket.readyState, WebSocket.OPEN);
    clearInterval(beats);
    socket.close();
    await connector.close();
  });
}
