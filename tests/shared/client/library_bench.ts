/** What the tests of the client library share: a system with a test's clock, and the folder of an agent. */
import type { ClientSystem } from "../../../shared/client/system.ts";
import { formatDid } from "../../../shared/protocol/did.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { until } from "../../support/until.ts";

/** A DID for each letter. */
export function didOf(letter: string): string {
  return formatDid({ authority: "registry.example.test", kind: "agent", id: `01KHYQ5H00${letter.repeat(16)}` });
}

/** A system whose clock stands still. */
export function systemOf(more: Partial<ClientSystem> = {}): ClientSystem & { clock: ManualClock } {
  return {
    fetch: () => Promise.reject(new TypeError("no network")),
    random: seededRandom(1),
    os: "linux",
    uid: Deno.uid(),
    usesProxyVariables: false,
    env: () => undefined,
    isRunning: () => true,
    isOfOtherUser: () => Promise.resolve(false),
    ...more,
    clock: (more.clock as ManualClock | undefined) ?? new ManualClock(),
  };
}

/** A `connector.json` of the agent A. */
export const CONNECTOR = {
  url: "http://127.0.0.1:19400",
  port: 19_400,
  token: "t",
  pid: 1,
  agentDid: didOf("A"),
  startedAt: "2026-02-21T00:00:00.000Z",
};

/** Moves the clock from timer to timer, at most so many seconds, until a condition holds. */
export async function passing(clock: ManualClock, seconds: number, holds: () => boolean): Promise<void> {
  for (let s = 0; s < seconds && !holds(); s++) await clock.advance(1_000);
  await until(holds, () => clock.pending());
}
