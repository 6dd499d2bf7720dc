/**
 * The tables of `docs/scaling.md` about the cost of one operation are counted here, so that the document stays true.
 * After a change of a cost, `deno test -A tests/soak/scaling_doc_test.ts -- --write` writes the new rows.
 */
import { assertEquals } from "@std/assert";
import { findDenokv } from "../support/denokv.ts";
import { docRows, SCALING_DOC, writeRows } from "../support/scaling_doc.ts";
import type { TestAgent, World } from "../support/world.ts";
import { BODY, type Cost, denokvStore, Deployment, fileStore, type Form, type OpenedStore } from "./costs.ts";

const denokv = await findDenokv();

/** Senders of messages at the same time. */
const AT_ONCE = 16;

interface Place extends Form {
  isRemote: boolean;
}

const PLACES: readonly Place[] = [
  { name: "one process, a file", instances: 1, together: true, isRemote: false },
  { name: "registry and proxy apart, files", instances: 1, together: false, isRemote: false },
  { name: "one instance, denokv", instances: 1, together: true, isRemote: true },
  { name: "two instances, denokv", instances: 2, together: true, isRemote: true },
  { name: "two with a link, denokv", instances: 2, together: true, isRemote: true, linked: true },
];

function open(place: Place): Promise<OpenedStore> {
  return place.isRemote ? denokvStore(denokv ?? "") : fileStore();
}

function row(place: Form, what: string, { counts, roundTrips, requests }: Cost): string {
  const { readCalls, reads, commits, checks, writes, bytes, wakeUps } = counts;
  const cells = [place.name, what, roundTrips, requests, readCalls, reads, commits, checks, writes, bytes, wakeUps];
  return `| ${cells.map(String).join(" | ")} |`;
}

async function rowsOf(place: Place): Promise<string[]> {
  await using store = await open(place);
  await using deployment = await Deployment.open(place, store);
  const { first, last, b } = deployment;
  const where = place.instances === 2 ? "delivered by the other" : "delivered";
  const rows = [row(place, where, await deployment.measure(() => deployment.send()))];
  const offline = await first.agent();
  await first.pair(deployment.a, offline);
  const queue = () => deployment.send(offline, { Prefer: "respond-async" });
  await queue();
  rows.push(row(place, "queued", await deployment.measure(queue)));
  if (!place.together || place.linked) return rows;
  // Over a network it depends on the time of each answer which messages share a call.
  if (place.instances === 1 && place.isRemote) return rows;
  if (place.instances === 1) return [...rows, row(place, `${AT_ONCE} delivered at once`, await burst(deployment))];

  const other = await first.agent();
  rows.push(row(place, "connection", await deployment.measure(() => deployment.openSocket(other))));
  const refresh = () => first.client.refresh(other.identity, other.agentAuth.refreshToken);
  rows.push(row(place, "refresh of a session", await deployment.measure(refresh)));
  const link = last.proxy.deps.connectedAgents.links(b.agent.did)[0]!;
  const check = () => last.proxy.deps.revalidation.check(link);
  rows.push(row(place, "check of a connected agent", await deployment.measure(check)));
  // The first revocation of a store has no list to replace.
  const agents = [await first.agent(), await first.agent()];
  const revocations: Cost[] = [];
  for (const { owner, agent } of agents) {
    const revoke = () => first.client.deleteAgent(owner.apiKey, agent.id);
    revocations.push(await deployment.measure(revoke, place.instances));
  }
  rows.push(row(place, "revocation, at both", revocations[1]!));
  const counts = deployment.countsOf(1);
  rows.push(row(place, "revocation, at the other", { counts, roundTrips: 0, requests: 0 }));
  return rows;
}

function signedBy(world: World, senders: readonly TestAgent[], to: TestAgent): Promise<Request[]> {
  return Promise.all(senders.map((sender) => world.signed(sender, { recipient: to.agent.did, body: BODY })));
}

/** Messages of as many senders to one recipient. */
async function burst(deployment: Deployment): Promise<Cost> {
  const { first, b } = deployment;
  const senders = await Promise.all(Array.from({ length: AT_ONCE }, () => first.agent()));
  // One after the other: a conflict waits on the clock, which stands still.
  for (const sender of senders) await first.pair(sender, b);
  for (const request of await signedBy(first, senders, b)) await first.fetch(request);
  // Signed before: the threads that sign end in any order.
  const requests = await signedBy(first, senders, b);
  return await deployment.measure(() => Promise.all(requests.map((request) => first.fetch(request))));
}

for (const place of PLACES) {
  Deno.test({
    name: `the costs in docs/scaling.md are those of ${place.name}`,
    ignore: place.isRemote && denokv === null,
    fn: async () => {
      const rows = await rowsOf(place);
      if (Deno.args.includes("--write")) await writeRows(rows);
      assertEquals(docRows(await Deno.readTextFile(SCALING_DOC), place.name), rows);
    },
  });
}
