/**
 * kill -9 of either connector at any moment of a pairing (D-146): the same ticket, confirmed again, ends with both keys known, because
 * pair secret and pin are on disk before the answer. One trial, of one of the two; more with `-- --trials n`.
 */
import { assertEquals } from "@std/assert";
import { createAgents, RunningConnector, svcHere } from "../cli/connector/people.ts";
import { eventually, Service, tempFolder } from "../support/process.ts";
import { trials } from "../support/trials.ts";

const TRIALS = trials(1);
/** A pairing takes about as long. */
const PAIRING_MS = 120;

Deno.test(`two connectors of which one is killed while they pair, ${TRIALS} times, end with the keys of both`, async () => {
  await using folder = await tempFolder();
  await using service = await Service.here();
  const names = ["alpha", "beta"] as const, dir = folder.path;
  await createAgents(dir, service, names);
  const start = (name: string) => RunningConnector.start(dir, name, ["--inbox"]);
  const running = { alpha: await start("alpha"), beta: await start("beta") };
  const other = { alpha: "beta", beta: "alpha" } as const;
  const isPinned = async (name: "alpha" | "beta") => {
    const { peers } = await running[name].json("GET", "/v1/peers");
    return peers[0]?.alias === other[name] && peers[0]?.how === "ticket" || undefined;
  };
  try {
    for (let trial = 0; trial < TRIALS; trial++) {
      const killed = names[Math.floor(Math.random() * 2)] ?? "alpha", moment = PAIRING_MS * Math.random();
      const what = `trial ${trial}, ${killed} killed after ${Math.round(moment)} ms`;
      const { ticket } = await running.alpha.json("POST", "/v1/pair/start", {});
      const confirm = () => running.beta.call("POST", "/v1/pair/confirm", { ticket });
      const first = confirm().then((response) => response.body?.cancel()).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, moment));
      running[killed].child.signal("SIGKILL");
      await Promise.all([first, running[killed].child.status]);
      running[killed] = await start(killed);
      // The person pastes the ticket again.
      const again = await confirm();
      assertEquals(again.status, 201, `${what}: ${await again.text()}`);
      for (const name of names) await eventually(30_000, `${name} knows the key, ${what}`, () => isPinned(name));
      const sent = await running.alpha.json("POST", "/v1/outbound", { to: "beta", text: `message ${trial}` });
      assertEquals(sent.delivered, true, what);
      if (trial + 1 === TRIALS) break;
      for (const name of names) await svcHere(dir, ["peers", "remove", other[name], "--yes", "--agent", name]);
    }
  } finally {
    for (const name of names) await running[name].child.end("SIGKILL");
  }
});
