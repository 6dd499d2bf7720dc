/** A listener that fails says so each time, because a server that no client reaches would otherwise be silent. */
import { assertEquals } from "@std/assert";
import { listenOn } from "../../shared/listening.ts";
import { until } from "../support/until.ts";

Deno.test("a listener whose port another program has taken meanwhile reports each try", async () => {
  const { serve } = Deno, failures: unknown[] = [], addr = { transport: "tcp", hostname: "127.0.0.1", port: 4 };
  const answers = [
    () => ({ addr, finished: Promise.reject("no file"), shutdown: () => Promise.resolve() }),
    () => {
      throw "port taken";
    },
    () => ({ addr, finished: Promise.resolve(), shutdown: () => Promise.resolve() }),
  ];
  try {
    Deno.serve = (() => answers.shift()?.()) as unknown as typeof serve;
    const { shutdown } = listenOn(
      { hostname: "127.0.0.1", port: 0, onFailed: (cause) => failures.push(cause) },
      () => new Response(),
    );
    await until(() => answers.length === 0);
    await shutdown();
  } finally {
    Deno.serve = serve;
  }
  assertEquals(failures, ["no file", "port taken"]);
});
