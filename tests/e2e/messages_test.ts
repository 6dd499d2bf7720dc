/**
 * Messages by `svc` alone, as real processes: questions and answers in a shell, and another program on the port of a
 * killed connector (D-119).
 */
import { assert, assertEquals } from "@std/assert";
import { PairedAgents } from "../cli/connector/paired_agents.ts";
import { attemptHere } from "../cli/connector/people.ts";
import { bundledProgram, programs, Watched } from "../cli/program.ts";
import { eventually, within } from "../support/process.ts";

const END_MS = 90_000;

for (const program of await programs()) {
  Deno.test(`two agents ask, answer and read by svc alone (${program.name})`, async (t) => {
    await using shell = await PairedAgents.open(program);
    await using _beta = await shell.connector("beta");

    await t.step("a piped text arrives as two lines", async () => {
      const { code, stdout, stderr } = await shell.run("alpha", "printf 'a\\nb' | svc send beta");
      assertEquals([code, stdout], [0, ""]);
      assert(/^Sent to beta: arrived \(\w{26}\)\n$/.test(stderr), stderr);
      const inbox = await shell.run("beta", "svc inbox --take");
      assert(/^1 {2}\S+ {2}alpha {2}end-to-end\n {4}a\n {4}b\n$/.test(inbox.stdout), inbox.stdout);
    });

    // Beta answers each question while it runs.
    await using reader = new Watched(shell.spawn("beta", ["inbox", "--follow", "--take", "--json"]));
    const answer = async (number: number) => {
      const line = await eventually(
        END_MS,
        "the question arrives",
        () => reader.printed.split("\n").slice(0, -1)[number],
      );
      const { id, text } = JSON.parse(line) as { id: number; text: string };
      const { code, stderr } = await shell.run("beta", `svc reply ${id} "You asked: ${text}"`);
      assertEquals(code, 0, stderr);
    };
    const ask = async (number: number, words: string) => {
      const asking = shell.run("alpha", `answer=$(svc send beta --wait "${words}") && printf '%s' "<$answer>"`);
      await Promise.race([answer(number), asking.then(({ stderr }) => assertEquals(stderr, ""))]);
      assertEquals(await asking, { code: 0, stdout: `<You asked: ${words}>`, stderr: "" });
    };

    await t.step("an answer is the output of the question, without a connector of the sender", () => ask(0, "one?"));
    await t.step("an answer is the output of the question, with a connector of the sender", async () => {
      await using _alpha = await shell.connector("alpha");
      await ask(1, "two?");
      // A message is read, and its receipt is on its way, once the listing has shown it: the answer may overtake both.
      await eventually(END_MS, "both agents have read everything", async () => {
        const { code, result } = await attemptHere(shell.dir, ["status"]);
        const agents = result.agents.map(({ name, connector }: Record<string, unknown>) => [name, connector]);
        assertEquals([code, agents], [0, [["alpha", "running"], ["beta", "running"]]]);
        return result.agents.every(({ unread }: { unread: number }) => unread === 0) || undefined;
      });
      await eventually(END_MS, "the question is processed", async () => {
        const sent = await attemptHere(shell.dir, ["sent", "--to", "beta"], { SVC_AGENT: "alpha" });
        return sent.result.messages[0].state === "processed" || undefined;
      });
    });

    await t.step("Ctrl-C ends a listing that follows", async () => {
      reader.child.kill("SIGINT");
      assertEquals((await within(END_MS, "the listing ends", reader.child.status)).code, 0);
    });
  });
}

Deno.test("no command sends a byte to the program that has the port of a killed connector", async () => {
  await using shell = await PairedAgents.open(await bundledProgram());
  let port: number;
  {
    await using alpha = await shell.connector("alpha");
    port = Number(new URL(alpha.file.url).port);
    await alpha.child.end("SIGKILL");
  }
  const connections: string[] = [];
  const listener = Deno.listen({ hostname: "127.0.0.1", port });
  const accepting = (async () => {
    for await (const connection of listener) {
      const buffer = new Uint8Array(1_024);
      const length = await connection.read(buffer).catch(() => 0) ?? 0;
      connections.push(new TextDecoder().decode(buffer.subarray(0, length)));
      connection.close();
    }
  })();
  for (const [line, exit] of [["send beta hello", 0], ["inbox", 0], ["status", 0], ["connector status", 5]] as const) {
    const { code, error } = await attemptHere(shell.dir, line.split(" "), { SVC_AGENT: "alpha" });
    assertEquals(code, exit, `${line}\n${error?.message}`);
  }
  listener.close();
  await accepting;
  assertEquals(connections, []);
});
