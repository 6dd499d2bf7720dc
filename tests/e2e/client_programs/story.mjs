// Two agents: pair, ask, answer, receipt, remove. Argument: configuration directory.
import process from "node:process";
import { LocalAgent } from "@svc/client";

const [configDir] = process.argv.slice(2);
const open = (name) => LocalAgent.open({ name, configDir });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const [alpha, beta] = await Promise.all([open("alpha"), open("beta")]);
for (const agent of [alpha, beta]) agent.on("problem", ({ message }) => console.error(agent.name, message));

const { ticket } = await alpha.pair.start();
const peer = await beta.pair.confirm(ticket);
const end = beta.onMessage((message) => {
  if (message.text === "fail") throw new Error("not today");
  if (message.text === "quiet") return;
  return { message: `You said: ${message.text}`, auto: message.auto };
});
const to = beta.did;
const reply = await alpha.ask(to, "hello", { conversationId: "c-1", timeoutMs: 30_000 });
const answered = await alpha.reply(reply, { message: "thanks" });
const { requestId } = await alpha.send(to, "quiet");
let receipts = [];
while (receipts.length === 0) {
  await pause(200);
  receipts = await alpha.receipts(requestId, to);
}
const late = await alpha.ask(to, "quiet", { timeoutMs: 1_500 }).catch(({ code }) => code);
const peers = (await alpha.peers()).map(({ agentDid, name }) => [agentDid === to, name]);
await alpha.pair.remove(to);
const refused = await alpha.send(to, "hello").catch(({ code, status }) => [code, status]);
end();
const { text, isReply, auto, conversationId, payload, verified, from } = reply;
console.log(JSON.stringify({
  ...{ peer: peer.agentDid === alpha.did, peers, answered: answered.state, late, refused },
  ...{ receipts: receipts.map(({ status }) => status), from: from.agentDid === to },
  ...{ text, isReply, auto, conversationId, payload, verified },
}));
await Promise.all([alpha.close(), beta.close()]);
