// Asks a peer twice a second and answers what it is asked, until it gets SIGTERM. Prints the result of each question.
// Arguments: configuration directory, name of the agent, DID of the peer.
import process from "node:process";
import { LocalAgent } from "@svc/client";

const [configDir, name, peer] = process.argv.slice(2);
const agent = await LocalAgent.open({ name, configDir });
const print = (line) => console.log(JSON.stringify({ at: Date.now(), ...line }));
agent.on("problem", ({ message, code }) => print({ problem: message, code }));
agent.onMessage(({ text }) => `You said: ${text}`);
let stopped = false;
process.on("SIGTERM", () => stopped = true);
for (let n = 1; !stopped; n++) {
  try {
    const { text } = await agent.ask(peer, `question ${n}`, { timeoutMs: 5_000, conversationId: `c-${n}` });
    print({ ok: text === `You said: question ${n}` });
  } catch ({ code, message }) {
    print({ ok: false, code, message });
  }
  await new Promise((resolve) => setTimeout(resolve, 500));
}
await agent.close();
