/**
 * The server of a hostile operator, with a name of its own and TLS of a private authority (D-282):
 * `<folder of the authority> <address> <origin> <origin of the server that it attacks>`. It takes a command a line, and answers each with
 * a line of JSON:
 *
 * - `{"confirm": ticket, "as": origin}`: confirms a ticket of the attacked server as an agent of this issuer; answers with the result
 * - `{"message": did}`: writes to an agent there; answers with the result
 * - `{"replay": true}`: sends there what a visiting agent sent here; answers with the results by path
 * - `{"connections": true}`: answers with the number of requests that arrived here
 */
import { systemClock } from "../../shared/clock.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { type ForeignAgent, ForeignIssuer } from "./foreign_issuer.ts";
import { Hostile } from "./hostile_issuer.ts";
import { PrivateAuthority } from "./private_authority.ts";

const [folder = "", address = "", own = "", url = ""] = Deno.args;
const { hostname: name } = new URL(own);
const authority = await PrivateAuthority.at(folder);
const issuers = new Map<string, Hostile>();
let connections = 0, paired: [Hostile, ForeignAgent] | null = null;
const received: { path: string; headers: Headers; body: string }[] = [];

async function issuerOf(origin: string): Promise<Hostile> {
  const job = { url, issuer: origin, ticket: "", recipient: "", attack: "burn", share: 0 } as const;
  const known = issuers.get(origin) ?? new Hostile({ ...job }, await ForeignIssuer.open(systemClock, origin));
  issuers.set(origin, known);
  return known;
}

async function serve(request: Request): Promise<Response> {
  connections++;
  if (request.method === "GET") return await (await issuerOf(own)).issuer.abroad.send(request);
  received.push({
    path: new URL(request.url).pathname,
    headers: new Headers(request.headers),
    body: await request.text(),
  });
  return Response.json({ error: { code: "PROXY_RELAY_UNAVAILABLE", message: "later" } }, { status: 503 });
}

/** Sends what arrived here unchanged to the attacked server, and with its credentials to the route of messages. */
async function replay(): Promise<Record<string, string>> {
  const results: Record<string, string> = {};
  for (const { path, headers, body } of received) {
    for (const target of new Set([path, "/hooks/agent", "/v1/relay/deliveries"])) {
      const kept = [...headers].filter(([key]) =>
        key === "authorization" || key === "content-type" || key.startsWith("x-")
      );
      const response = await fetch(url + target, { method: "POST", headers: Object.fromEntries(kept), body });
      results[target] = `${response.status} ${(await response.json()).error?.code}`;
    }
  }
  const tokens = received.map(({ headers }) => headers.get(HEADERS.access)).filter((token) => token !== null);
  return { ...results, tokens: String(tokens.length) };
}

// deno-lint-ignore no-explicit-any
async function answer(command: any): Promise<unknown> {
  if (command.connections) return connections;
  if (command.replay) return await replay();
  if (command.confirm) {
    const hostile = await issuerOf(command.as), agent = await hostile.agent();
    hostile.job.ticket = command.confirm;
    const result = await hostile.pair(agent).then(() => "201", (error) => String(error.message));
    if (result === "201") paired = [hostile, agent];
    return result;
  }
  if (paired === null) return "not paired";
  const [hostile, agent] = paired;
  return await hostile.post(agent, "/hooks/agent", { message: "x" }, { recipient: command.message });
}

Deno.serve(
  {
    hostname: address,
    port: 443,
    ...await authority.issue("third", `DNS:${name}`),
    onListen: () => console.log("ready"),
  },
  serve,
);
let text = "";
for await (const piece of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  text += piece;
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
    const line = text.slice(0, end);
    text = text.slice(end + 1);
    console.log(JSON.stringify(await answer(JSON.parse(line)).catch((error) => String(error))));
  }
}
