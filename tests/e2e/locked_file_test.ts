import { assertEquals } from "@std/assert";
import { closeLocked } from "../../shared/locked_file.ts";
import { tempFolder } from "../support/temp_folder.ts";

const LOCKS = 3_000;

Deno.test("a lock ends with its file, also while programs are being started", async () => {
  await using folder = await tempFolder();
  const path = `${folder.path}/a.lock`;
  const begun = Promise.withResolvers<void>();
  // A program is started by another thread, because a start stops its own one.
  const worker = new Worker(import.meta.resolve("./starts_programs.ts"), { type: "module" });
  worker.onmessage = () => begun.resolve();
  await begun.promise;
  let taken = 0;
  for (let i = 0; i < LOCKS; i++) {
    const file = await Deno.open(path, { read: true, write: true, create: true });
    if (await file.tryLock(true)) taken++;
    closeLocked(file);
  }
  worker.terminate();
  assertEquals(taken, LOCKS);
});
