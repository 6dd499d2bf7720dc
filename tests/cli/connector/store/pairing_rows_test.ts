/** What pairing keeps on disk: the newest secrets and confirmations, each until its end, also after a restart. */
import { assertEquals } from "@std/assert";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { Disk } from "./disk.ts";

const DAY_MS = 86_400_000;
const PROFILE = { agentName: "beta", humanName: "Bob" };
/** Confirmations that are kept at a time. */
const CONFIRMATIONS = 100;

Deno.test("the newest secrets of an agent's tickets are kept, as many as it may have open tickets", async () => {
  await using disk = await Disk.make();
  const { pairSecrets: secrets } = disk.open().store;
  const names = Array.from({ length: LIMITS.openTickets + 3 }, (_, i) => `secret-${i}`);
  for (const name of names) secrets.add(name, 1_000);
  assertEquals(secrets.open(0), names.slice(3));
  secrets.remove(names.at(-1) ?? "");
  secrets.add("another", 1_000);
  assertEquals(secrets.open(0), [...names.slice(3, -1), "another"]);
});

Deno.test("a secret is open for a day after its ticket is over, also after a restart, and then deleted", async () => {
  await using disk = await Disk.make();
  const first = disk.open().store;
  first.pairSecrets.add("early", 1_000);
  first.pairSecrets.add("late", 1_001);
  const { pairSecrets: secrets, database } = disk.open().store;
  assertEquals(secrets.open(DAY_MS + 999), ["early", "late"]);
  assertEquals(secrets.open(DAY_MS + 1_000), ["late"]);
  secrets.forget(DAY_MS + 999);
  assertEquals(database.number("SELECT count(*) FROM pair_secrets"), 2);
  secrets.forget(DAY_MS + 1_000);
  assertEquals(database.number("SELECT count(*) FROM pair_secrets"), 1);
});

Deno.test("the newest 100 confirmations are kept in order, each once and with its half, also after a restart", async () => {
  await using disk = await Disk.make();
  const first = disk.open().store, { pairConfirmations: rows } = first;
  const names = Array.from({ length: CONFIRMATIONS + 2 }, (_, i) => `ticket-${i}`);
  for (const name of names) rows.begin(name, PROFILE, 5);
  assertEquals(rows.all().map(({ ticket }) => ticket), names.slice(2));
  rows.halfDone("ticket-2", "did-of-peer");
  // A later try of the same ticket neither prolongs it nor forgets what was done.
  rows.begin("ticket-2", { ...PROFILE, agentName: "other" }, 500);
  rows.end("ticket-3");
  const all = disk.open().store.pairConfirmations.all();
  assertEquals(all[0], { ticket: "ticket-2", profile: PROFILE, until: 5 + DAY_MS, half: "did-of-peer" });
  assertEquals(all.map(({ ticket }) => ticket), ["ticket-2", ...names.slice(4)]);
});
