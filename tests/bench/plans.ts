/**
 * Turns every plan into the bytes of its requests and the check of their responses. All signing happens here, before
 * the measurement. run.ts sends the requests.
 */
import { messageTarget } from "../../shared/protocol/message_context.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { type Fleet, newId, provenHeaders } from "./fleet.ts";
import { requestBytes, type WireAnswer } from "./http_wire.ts";
import type { Plan, PlanOf } from "./jobs.ts";
import { Ledger } from "./ledger.ts";

/** Requests that are ready to send. */
export interface Prepared {
  requests: Uint8Array<ArrayBuffer>[];
  /** Returns true for an expected response. */
  isGood(answer: WireAnswer, index: number): boolean;
  /** Counts messages at their recipients; `null` when the requests are not messages that must arrive. */
  ledger: Ledger | null;
}

const SIGNED_AT_ONCE = 64;

/** Returns the requests of a plan. */
export async function prepare(plan: Plan, fleet: Fleet): Promise<Prepared> {
  switch (plan.kind) {
    case "messages":
      return await messages(plan, fleet);
    case "gets":
      return gets(plan);
  }
}

async function messages(plan: PlanOf<"messages">, fleet: Fleet): Promise<Prepared> {
  const { proxyUrl, pairs, count, bodyBytes, identity, plainTarget = false, spoil = false } = plan;
  const ledger = new Ledger(`bench-${newId()}-`, identity);
  const ids: string[] = [];
  const requests = await inOrder(count, async (i) => {
    const [from, to] = pairs[i % pairs.length] ?? [0, 0];
    const [sender, recipient] = [fleet.agent(from), fleet.agent(to)];
    const text = `message ${i} `.padEnd(bodyBytes - '{"message":""}'.length, ".");
    const requestId = ids[i] = ledger.expect({ sender, recipient, text });
    const body = JSON.stringify({ message: text });
    // Without an identity the message goes to the floor, which knows no signed context.
    const bound = { "Content-Type": "application/json", [HEADERS.requestId]: requestId };
    const target = identity && !plainTarget ? await messageTarget(bound) : "/hooks/agent";
    const request = { method: "POST", url: proxyUrl, target, body, recipient: recipient.did };
    const headers = {
      ...await provenHeaders(sender, request),
      ...(spoil ? { [HEADERS.proof]: "A".repeat(86) } : {}),
      ...bound,
    };
    return requestBytes("POST", proxyUrl, target, headers, body);
  });
  fleet.onDelivered = ledger.delivered;
  return {
    requests,
    ledger: spoil ? null : ledger,
    isGood({ status, text }, index) {
      // After some bad proofs the rate limit refuses them with 429.
      if (spoil) return status === 401 || status === 429;
      if (status !== 202) return false;
      const answer = JSON.parse(text) as Record<string, unknown>;
      return answer.accepted === true && answer.requestId === ids[index] && answer.delivered === true;
    },
  };
}

function gets({ url, count, bytes: least, headers = {} }: PlanOf<"gets">): Prepared {
  const { pathname } = new URL(url);
  const requests = Array.from({ length: count }, () => requestBytes("GET", url, pathname, headers));
  return {
    requests,
    ledger: null,
    isGood: ({ status, bytes }) => status === 200 && bytes >= least,
  };
}

async function inOrder<T>(count: number, make: (index: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  for (let i = 0; i < count; i += SIGNED_AT_ONCE) {
    const size = Math.min(SIGNED_AT_ONCE, count - i);
    made.push(...await Promise.all(Array.from({ length: size }, (_, k) => make(i + k))));
  }
  return made;
}
