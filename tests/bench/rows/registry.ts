/**
 * The registry and the mailbox: reads, validations, refreshes and registrations per second; messages into the mailboxes of
 * offline agents, and out of them when the agents connect. A bare server answers a fixed text, as the measure.
 */
import type { Child } from "../child.ts";
import { type Figure, figure, type Outcome, ratio } from "../figures.ts";
import type { RunAnswer, Timed } from "../jobs.ts";
import { cpuOf, newApiKeys, UNLIMITED, type World } from "../world.ts";
import { pairsOf } from "./messages.ts";

const CONCURRENCY = 16;
/** Messages of one sender that a mailbox holds. */
const PER_MAILBOX = 100;
const LONGEST_SECONDS = 60;
/** Routes that are read, with the credential of the caller or without one. */
const READS: readonly { path: string; isPublic: boolean }[] = [
  { path: "/v1/metadata", isPublic: true },
  { path: "/v1/me", isPublic: false },
  { path: "/v1/agents", isPublic: false },
];

export async function registry(world: World): Promise<Outcome> {
  const { validations, refreshes, registrations } = world.scale;
  const { place, admin } = await world.together({ ...UNLIMITED, TRUSTED_PROXIES: "127.0.0.1" });
  const { registryUrl, children } = place;
  const load = await world.agents(place, admin, refreshes);
  const flatOut = { concurrency: CONCURRENCY, seconds: LONGEST_SECONDS, strict: true };
  const bare = await world.bare("bare.ts", ["0"]);
  await load.ask("prepare", { kind: "gets", url: bare.url, count: validations, bytes: 1 });
  const least = await costed(world, "bare server", [bare.child], () => load.ask("run", flatOut), validations);

  const read: Costed[] = [];
  for (const { path, isPublic } of READS) {
    const headers: Record<string, string> = isPublic ? {} : { Authorization: `Bearer ${admin.apiKey}` };
    await load.ask("prepare", { kind: "gets", url: registryUrl + path, count: validations, bytes: 1, headers });
    read.push(await costed(world, `GET ${path}`, children, () => load.ask("run", flatOut), validations));
  }
  await load.ask("prepare", { kind: "validations", registryUrl, count: validations, service: admin.service });
  const validated = await costed(world, "validations", children, () => load.ask("run", flatOut), validations);
  await load.ask("prepare", { kind: "refreshes", registryUrl, forwarded: true });
  const refreshed = await costed(world, "refreshes", children, () => load.ask("run", flatOut), refreshes);
  const apiKeys = await newApiKeys(place, admin, registrations);
  const register = () => load.ask("register", { registryUrl, apiKeys, count: registrations });
  const registered = await costed(world, "registrations", children, register, registrations);
  const own = [...read, validated, refreshed, registered];
  return {
    figures: [
      ...[least, ...own].flatMap(({ figures }) => figures),
      ...own.map(({ name, cpuUs }) => ratio(`bare server / ${name}: server CPU of each`, least.cpuUs, cpuUs)),
    ],
  };
}

/** Requests of one kind. */
interface Costed {
  name: string;
  /** Microseconds of server CPU for each. */
  cpuUs: number | null;
  figures: Figure[];
}

async function costed(
  world: World,
  name: string,
  servers: readonly Child[],
  work: () => Promise<Timed | RunAnswer>,
  count: number,
): Promise<Costed> {
  world.say(name);
  const before = cpuOf(servers);
  const answer = await work();
  const cpuUs = perEach(before, cpuOf(servers), count);
  const { seconds, cpuSeconds } = answer;
  return {
    name,
    cpuUs,
    figures: [
      figure(name, count / seconds, "/s"),
      ...("p50" in answer ? [figure(`${name}: p50`, answer.p50, "ms"), figure(`${name}: p99`, answer.p99, "ms")] : []),
      figure(`${name}: server CPU of each`, cpuUs, "µs"),
      figure(`${name}: generator's CPU`, cpuSeconds * 100 / seconds, "% of a core"),
    ],
  };
}

export async function mailbox(world: World): Promise<Outcome> {
  const { mailboxes } = world.scale;
  const { place, admin } = await world.together(UNLIMITED);
  const { proxyUrl, children } = place;
  const pairs = pairsOf(mailboxes);
  const load = await world.agents(place, admin, mailboxes * 2);
  await load.ask("pair", { proxyUrl, pairs });
  const count = mailboxes * PER_MAILBOX;
  await load.ask("prepare", { kind: "messages", proxyUrl, pairs, count, bodyBytes: 120, identity: true, queue: true });
  const empty = cpuOf(children);
  const into = await load.ask("run", { concurrency: CONCURRENCY, seconds: LONGEST_SECONDS, strict: true });
  if (into.sent !== count) throw new Error(`Only ${into.sent} of ${count} messages were queued in time`);
  const full = cpuOf(children);
  const connecting = await load.ask("connect", { proxyUrl, agents: pairs.map(([, recipient]) => recipient) });
  const out = await load.ask("collect", { waitMs: LONGEST_SECONDS * 1000 });
  const emptied = cpuOf(children);
  return {
    figures: [
      figure("into mailboxes", count / into.seconds, "/s"),
      figure("into mailboxes: server CPU of each", perEach(empty, full, count), "µs"),
      figure("out of mailboxes", count / (connecting.seconds + out.seconds), "/s"),
      figure("out of mailboxes: server CPU of each", perEach(full, emptied, count), "µs"),
    ],
  };
}

function perEach(before: number | null, after: number | null, count: number): number | null {
  return before === null || after === null ? null : (after - before) * 1_000_000 / count;
}
