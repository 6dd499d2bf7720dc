// Opens an agent from its folder and reads its peers, which refreshes its session when the access token has expired.
// Argument: folder of the agent.
import process from "node:process";
import { Agent } from "@svc/client";

const agent = await Agent.fromDirectory(process.argv[2]);
const peers = await agent.peers();
console.log(JSON.stringify({ peers: peers.length }));
await agent.close();
