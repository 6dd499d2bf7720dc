/** Shows when queued messages still have room on the store's disk. */
import { assertEquals } from "@std/assert";
import { StoreReserve } from "../../../shared/server/store/store_reserve.ts";
import { ManualClock } from "../../support/manual_clock.ts";

const GIB = 2 ** 30;

Deno.test("the reserve is a tenth of the disk, at most 1 GiB, or what is configured", () => {
  const room = (freeBytes: number, totalBytes: number, reserve: number | null = null) =>
    new StoreReserve(() => ({ freeBytes, totalBytes }), new ManualClock(), reserve).hasRoom(1_000);
  assertEquals([room(10_001_999, 100_000_000), room(10_002_000, 100_000_000)], [false, true]);
  assertEquals([room(GIB, 100 * GIB), room(GIB + 2_000, 100 * GIB)], [false, true]);
  assertEquals([room(2_000, 100 * GIB, 0), room(1_999, 100 * GIB, 0)], [true, false]);
  assertEquals(new StoreReserve(() => null, new ManualClock(), null).hasRoom(GIB), true);
});

Deno.test("what is written between two looks at the disk counts, and a look comes each second", async () => {
  const clock = new ManualClock();
  let looks = 0;
  const reserve = new StoreReserve(
    () => {
      looks++;
      return { freeBytes: 5_000, totalBytes: 10_000 };
    },
    clock,
    1_000,
  );
  assertEquals([reserve.hasRoom(1_000), reserve.hasRoom(1_000), reserve.hasRoom(1)], [true, true, false]);
  await clock.advance(999);
  assertEquals([reserve.hasRoom(1), looks], [false, 1]);
  await clock.advance(1);
  assertEquals([reserve.hasRoom(1), looks], [true, 2]);
});
