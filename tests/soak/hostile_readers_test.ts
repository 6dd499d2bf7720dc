/** The long run of tests/e2e/agents_doc_test.ts: more payloads of more seeds for every program of docs/agents.md. */
import { assertEquals } from "@std/assert";
import { HostileReaders } from "../e2e/hostile_readers.ts";
import { ANSWERING, HAS_PYTHON } from "../support/page_programs.ts";
import { trials } from "../support/trials.ts";

const SEEDS = Array.from({ length: trials(3) }, (_, i) => i + 2);
if (!HAS_PYTHON) console.log("The Python programs of docs/agents.md are NOT run here: python3 is not installed");

for (const seed of SEEDS) {
  for (const { name, ignore, start, answer } of ANSWERING) {
    const count = name === "answer.sh" ? 50 : 300;
    Deno.test({
      name: `${name} survives ${count} generated payloads of seed ${seed}`,
      ignore,
      async fn() {
        await using readers = await HostileReaders.open();
        const { agents, alpha } = readers;
        await using _answering = start({ dir: agents.dir, svc: agents.words, agent: "beta" });
        await readers.sendAll(name, { seed, count });
        await readers.allRead();
        const { reply } = await alpha.json("POST", "/v1/outbound?wait=60", { to: "beta", text: "?" });
        assertEquals(reply?.text, answer("alpha", "?"));
      },
    });
  }
  Deno.test({
    name: `ask.py survives 50 generated payloads of seed ${seed}`,
    ignore: !HAS_PYTHON,
    async fn() {
      await using readers = await HostileReaders.open();
      await readers.answerAll({ seed, count: 50 });
    },
  });
}
