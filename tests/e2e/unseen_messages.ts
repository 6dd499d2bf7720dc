/**
 * Messages that `svc mcp` takes while it or its host ends, or the call is cancelled (D-395): no message is read that no
 * answer has shown.
 */
import { MANY_STARTS, PairedAgents } from "../cli/connector/paired_agents.ts";
import type { RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { numbersFrom } from "../support/seeded_random.ts";
import { ModelSide } from "./model_side.ts";

/** Longest time between a request and its disturbance, milliseconds: an answer is complete by then. */
const LATEST_MS = 60;

/** A moment after a request, milliseconds: half of them within 8, since that is as long as an answer takes. */
function momentOf(chance: number): number {
  return LATEST_MS * chance ** 3;
}

/** How a call is disturbed. */
export const DISTURBANCES = ["kill", "cancel", "close"] as const;
export type Disturbance = typeof DISTURBANCES[number];

/** How many trials had which result. */
export interface Tally {
  shown: number;
  notShown: number;
  repeats: number;
}

/** The messages that alpha sends. */
class Sender {
  readonly sent: string[] = [];

  constructor(readonly connector: RunningConnector) {}

  async send(): Promise<string> {
    const requestId = `unseen-${this.sent.length + 1}`;
    this.sent.push(requestId);
    const text = `message ${this.sent.length}`;
    await this.connector.json("POST", "/v1/outbound", { to: "beta", text, requestId, prefer: "respond-async" });
    return requestId;
  }
}

/**
 * Disturbs one call after another at a random moment. Asserts that no message is read without having been shown.
 *
 * @param isAttached whether the connector is another process
 * @param isDrained whether everything is read at the end, which waits for leases
 */
export async function disturbed(
  disturbances: readonly Disturbance[],
  { seed, isAttached, isDrained }: { seed: number; isAttached: boolean; isDrained: boolean },
): Promise<Tally> {
  const chance = numbersFrom(seed);
  await using agents = await PairedAgents.open(await bundledProgram(), MANY_STARTS);
  await using connector = await agents.connector("alpha");
  await using beta = new ModelSide(agents, "beta", isAttached);
  const alpha = new Sender(connector);
  const tally = { shown: 0, notShown: 0, repeats: 0 };
  for (const disturbance of disturbances) {
    const host = await beta.present();
    const isWaiting = chance() < 0.5, ms = momentOf(chance());
    const first = isWaiting ? null : await alpha.send();
    const id = isWaiting ? host.call("wait_for_message", { timeout_seconds: 10 }) : host.call("read_inbox");
    const requestId = first ?? await alpha.send();
    await new Promise((resolve) => setTimeout(resolve, ms));
    if (disturbance === "kill") host.kill();
    else if (disturbance === "close") host.close();
    else host.cancel(id);
    if (disturbance !== "cancel") await beta.gone();
    // A later answer shows that the cancelled one is not still to come.
    else await host.answer(host.call("whoami"));
    beta.has(requestId) ? tally.shown++ : tally.notShown++;
    beta.check();
  }
  if (isDrained) await beta.drain(alpha.sent);
  beta.check();
  return { ...tally, repeats: beta.repeats };
}
