/** The thread with a peer, page by page. */
import { assertEquals } from "@std/assert";
import type { Place, Written } from "../../../../cli/connector/store/history.ts";
import { BETA, Disk, outgoing, store } from "./disk.ts";

const HOUR_MS = 3_600_000;

Deno.test("a thread shows each message on one page, also those after the clock was set back", async () => {
  await using disk = await Disk.make();
  const { store: { history }, inbox, sent } = disk.open("pull");
  for (const n of [1, 2, 3]) store(inbox, `before-${n}`, {}, HOUR_MS + n);
  sent.add(outgoing("mine"), HOUR_MS + 4);
  store(inbox, "after", {}, 5);
  const idOf = ({ message }: Written) => message.requestId;
  const pages: string[][] = [];
  for (let before: Place | undefined, more = true; more;) {
    const { entries, older } = history.thread(BETA, 2, before);
    pages.push(entries.map(idOf));
    more = older !== null;
    before = older ?? undefined;
  }
  assertEquals(pages, [["after", "mine"], ["before-2", "before-3"], ["before-1"]]);
});
