/** Bodies that arrive too slowly, against a real server with its real limit of 10 s. */
import { assert, assertEquals } from "@std/assert";
import { Service } from "../support/process.ts";
import { codeOf, RawConnection, rawRequest, usualLines } from "../support/raw_http.ts";

const HOOK = "/hooks/agent";
const REDEEM = "/v1/invites/redeem";

Deno.test("a slow body is cut with 408 or closed within 15 s, and its connection ends", async (t) => {
  await using service = await Service.open();
  // The platform reads a small body to its declared length, and ends the connection then.
  const cases: [name: string, path: string, length: number, begin: string, more: string, rest: string][] = [
    ["small, of a message", HOOK, 1_000, "", " ", " ".repeat(1_000)],
    ["small, without credentials", REDEEM, 1_000, "{", " ", " ".repeat(1_000)],
    ["small, and nothing more comes", REDEEM, 100, "{", "", "GET /v1/metadata HTTP/1.1\r\n\r\n".repeat(4)],
    ["large", REDEEM, 60_000, "{", " ", ""],
  ];
  await Promise.all(cases.map(([name, path, length, begin, more, rest]) =>
    t.step({
      name,
      sanitizeOps: false,
      sanitizeResources: false,
      sanitizeExit: false,
      fn: async () => {
        await using connection = await RawConnection.open(service.url);
        const lines = [...usualLines(service.url), ["Content-Length", String(length)] as const];
        await connection.send(rawRequest("POST", path, lines) + begin);
        const began = performance.now();
        const trickle = setInterval(() => void connection.send(more), 1_000);
        try {
          const answer = await connection.answer(15_000);
          if (answer) assertEquals([answer.status, codeOf(answer)], [408, "REQUEST_TIMEOUT"]);
          assert(performance.now() - began > 8_000, "it had 10 s");
          await connection.send(rest);
          assertEquals(await connection.answers(10_000), [], "the connection ends");
        } finally {
          clearInterval(trickle);
        }
      },
    })
  ));
});
