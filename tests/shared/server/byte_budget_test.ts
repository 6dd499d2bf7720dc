/** Shows that a budget of bytes holds its limits and counts exactly what is held. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { ByteBudget } from "../../../shared/server/byte_budget.ts";

Deno.test("ByteBudget counts exactly what is held and stays within its limits over any takes and releases", () => {
  const limits = { total: 100, perParty: 40 };
  const step = fc.oneof(
    fc.record({
      party: fc.constantFrom("a", "b", "c", "d"),
      bytes: fc.integer({ min: 0, max: 60 }),
      ignoreTotal: fc.boolean(),
    }),
    fc.record({ release: fc.nat(30) }),
  );
  fc.assert(fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
    const budget = new ByteBudget(limits);
    const leases: { party: string; bytes: number; ignoreTotal: boolean; isOpen: boolean; release: () => void }[] = [];
    const sum = (fits: (lease: typeof leases[number]) => boolean) =>
      leases.filter((lease) => lease.isOpen && fits(lease)).reduce((bytes, lease) => bytes + lease.bytes, 0);
    for (const one of steps) {
      if ("release" in one) {
        const lease = leases[one.release % Math.max(1, leases.length)];
        lease?.release();
        if (lease) lease.isOpen = false;
      } else {
        const { party, bytes, ignoreTotal } = one;
        const fits = budget.usedBy(party) + bytes <= limits.perParty &&
          (ignoreTotal || budget.used + bytes <= limits.total);
        const release = budget.take(party, bytes, { ignoreTotal });
        assertEquals(release !== null, fits);
        if (release) leases.push({ party, bytes, ignoreTotal, isOpen: true, release });
      }
      assertEquals(budget.used, sum(() => true));
      assertEquals(budget.used <= limits.total + sum(({ ignoreTotal }) => ignoreTotal), true);
      for (const party of ["a", "b", "c", "d"]) {
        assertEquals(budget.usedBy(party), sum((lease) => lease.party === party));
        assertEquals(budget.usedBy(party) <= limits.perParty, true);
      }
    }
  }));
});
