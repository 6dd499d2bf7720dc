/** `svc a2a …`: gives an A2A client on this machine one address for each peer (D-135). */
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { type AgentFolder, AgentStore, chosenAgent } from "../agents/agent_store.ts";
import { CliError, describe } from "../errors.ts";
import { LocalError } from "../local_errors.ts";
import { withHostsLock } from "../files/lock.ts";
import { fields } from "../terminal/output.ts";
import { connectorOf } from "./connector/connector.ts";
import { peerOf } from "../connector/peers/peer_list.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Context } from "../context.ts";
import { CARD_PATH } from "../platforms/a2a_protocol.ts";
import { thisMachine } from "../platforms/local_machine.ts";
import { withA2aPeer, withoutA2aPeer } from "../platforms/openclaw.ts";
import { applyChange } from "../platforms/setup.ts";
import { call, get, type LocalCalls } from "../../shared/client/local_client.ts";
import { findPeerEver, readPeers } from "../connector/peers/peers.ts";
import { Status } from "../connector/status.ts";
import { makeToken } from "../connector/local_api/discovery_file.ts";
import { readPort } from "../connector/local_api/port.ts";
import { a2aPath, type A2aPeer, peerTokenHash, readA2aPeers, writeA2aPeers } from "../connector/local_api/a2a_peers.ts";

/** A longer alias is cut in a narrow terminal. With more, the address beside it would be broken. */
const ALIAS_COLUMNS = 12;

const STATE_DIR = { value: "dir", summary: "State directory of OpenClaw", complete: "files" } as const;
const PEER = { peer: { summary: "Alias or DID of a peer", complete: "peers" } } as const;

export const COMMANDS = [
  command({
    path: ["a2a", "add"],
    summary: "Give a peer a local A2A address; prints the address and its token once",
    details: [
      "A program that speaks A2A 1.0 sends to the peer there, and gets the peer's reply as the result. The token is good",
      "for this peer only. Add a peer again for a new token. Address and token work while the connector runs.",
    ],
    args: PEER,
    options: {
      ...AGENT_OPTION,
      for: { value: "program", summary: "Write the address into the settings of openclaw", complete: ["openclaw"] },
      "platform-state-dir": STATE_DIR,
      "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
    },
    examples: {
      "svc a2a add beta": "Print an address and a token for messages to beta",
      "svc a2a add beta --for openclaw": "OpenClaw reaches beta as a2a:svc-beta",
    },
    async run(ctx, { args, options }) {
      const program = options.for;
      if (program !== undefined && program !== "openclaw") {
        throw new CliError("CLI_USAGE", `--for takes openclaw, not "${program}"`);
      }
      const connector = await connectorOf(ctx, options.agent), { folder } = connector;
      const peer = await peerOf(ctx, connector, args.peer);
      const stateDir = options["platform-state-dir"] ?? null;
      const { isAgain, ...added } = await addPeer(ctx, connector, peer, program !== undefined, stateDir);
      const { card, token, changed, target } = added;
      ctx.out.result({ agent: folder.name, alias: peer.alias, agentDid: peer.did, ...added }, [
        ctx.out.bold(`A2A clients on this machine reach ${peer.alias} at ${added.url}`),
        ...fields([
          ["token", token],
          ["card", card],
          ["changed", changed ?? undefined],
          ["OpenClaw", target === null ? undefined : `sends to ${target}`],
        ]),
        "The token is shown once. It is good for messages to this peer and for nothing else.",
        ...isAgain ? ["The token that was shown before no longer works."] : [],
      ]);
      if (connector.client === null) ctx.out.next(["connector", "start", folder.name]);
    },
  }),
  command({
    path: ["a2a", "list"],
    summary: "List the peers with a local A2A address",
    options: AGENT_OPTION,
    examples: { "svc a2a list": "Show each address and when it was added" },
    async run(ctx, { options }) {
      const folder = await chosenAgent(ctx, options.agent);
      const origin = originOf(folder);
      const peers = readA2aPeers(folder).map(({ alias, did, addedAt }) => {
        return { alias, agentDid: did, url: origin && origin + a2aPath(alias), addedAt };
      });
      ctx.out.list({ agent: folder.name, peers }, peers, "No peer has an A2A address.", [
        // The address ends in the alias, so a narrow terminal needs no other column.
        { head: "ALIAS", rank: 1, cut: ALIAS_COLUMNS, of: ({ alias }) => alias },
        { head: "ADDRESS", of: ({ url }) => url },
        { head: "ADDED", rank: 2, of: ({ addedAt }) => ctx.out.time(addedAt) },
        { head: "DID", isWide: true, of: ({ agentDid }) => agentDid },
      ]);
    },
  }),
  command({
    path: ["a2a", "remove"],
    summary: "Remove the local A2A address of a peer; its token stops working at once",
    details: ["Where the settings of OpenClaw have the token, the peer is removed there too."],
    args: PEER,
    options: { ...AGENT_OPTION, "platform-state-dir": STATE_DIR },
    examples: { "svc a2a remove beta": "End the token of beta's address" },
    async run(ctx, { args, options }) {
      const folder = await chosenAgent(ctx, options.agent);
      const { alias, did, tokenHash } = await new AgentStore(ctx).lock(folder.name, async () => {
        const peers = readA2aPeers(folder);
        // The address keeps the alias that the peer had when it was added, and the person may know only the present one.
        const found = peers.find(({ alias, did }) => alias === args.peer || did === args.peer) ??
          peers.find(({ did }) => did === findPeerEver(readPeers(folder), args.peer));
        if (found === undefined) {
          const unknown = new LocalError("CONNECTOR_PEER_UNKNOWN", `${args.peer} has no A2A address`);
          unknown.fix = `svc a2a list --agent ${folder.name} lists the peers that have one.`;
          throw unknown;
        }
        await writeA2aPeers(folder, peers.filter((peer) => peer !== found));
        return found;
      });
      const changed = await withHostsLock(ctx, async () => {
        const isDead = (token: string) => peerTokenHash(token) === tokenHash;
        const change = await withoutA2aPeer(thisMachine(ctx), options["platform-state-dir"] ?? null, alias, isDead);
        if (change !== null) await applyChange(ctx, folder, "openclaw", change);
        return change?.path ?? null;
      }).catch((error) => {
        // Only a warning, because the token has ended already.
        ctx.out.warn(`OpenClaw may still have the peer: ${describe(error).cause}`);
        return null;
      });
      ctx.out.result({ agent: folder.name, alias, agentDid: did, changed }, [
        `${alias} has no A2A address any longer.`,
        ...changed === null ? [] : fields([["changed", changed]]),
      ]);
    },
  }),
];

/**
 * Gives a peer an address for A2A clients, with a token. A peer that has the address already gets a new token.
 *
 * @param isForOpenClaw whether the address is written into the settings of OpenClaw
 * @throws {CliError} `CLI_USAGE` before the first start of the connector, which chooses the port; `CLI_BUSY` while
 * another program has that port, because the client would send its token and its messages to that program
 */
export async function addPeer(
  ctx: Context,
  { folder, client }: { folder: AgentFolder; client: LocalCalls | null },
  { alias, did }: { alias: string; did: string },
  isForOpenClaw: boolean,
  stateDir: string | null,
) {
  const origin = originOf(folder);
  if (origin === null) {
    throw new CliError("CLI_USAGE", `The agent ${folder.name} has no port yet: its connector has never run`, {
      fix: `svc connector start ${folder.name}`,
    });
  }
  if (!await isOwnPort(ctx, origin, client)) {
    throw new CliError("CLI_BUSY", `${origin} is the address of ${folder.name}, but another program listens there`, {
      fix: `Stop that program, or choose another port: svc connector start ${folder.name} --port <port>`,
    });
  }
  const url = origin + a2aPath(alias);
  const token = `svc_a2a_${makeToken(ctx.random)}`;
  const add = async () => {
    const known = readA2aPeers(folder);
    const others = known.filter((one) => one.did !== did && one.alias !== alias);
    const added: A2aPeer = { alias, did, tokenHash: peerTokenHash(token), addedAt: toIso(ctx.clock.now()) };
    const inboundToken = makeToken(ctx.random);
    const peer = { url, token: inboundToken, outboundToken: token };
    const change = isForOpenClaw ? await withA2aPeer(thisMachine(ctx), stateDir, alias, peer) : null;
    // First, because a refusal would otherwise leave OpenClaw with a token that no longer works.
    if (change !== null) await applyChange(ctx, folder, "openclaw", change);
    await writeA2aPeers(folder, [...others, added]);
    const target = change && `a2a:${change.name}`;
    const isAgain = others.length < known.length;
    return { url, card: url + CARD_PATH, token, changed: change && change.path, target, isAgain };
  };
  return await new AgentStore(ctx).lock(folder.name, () => isForOpenClaw ? withHostsLock(ctx, add) : add());
}

/** Whether the agent's connector has the port, or can have it because no program listens there. */
async function isOwnPort(ctx: Context, origin: string, client: LocalCalls | null): Promise<boolean> {
  if (client !== null) {
    const { api } = await call(client, Status.pick({ api: true }), get("/v1/status"));
    return (api?.movedFrom ?? null) === null;
  }
  return !(await ctx.reach?.(origin) ?? false);
}

/** Origin of the agent's local API; `null` before the first start of its connector, which chooses the port. */
function originOf(folder: AgentFolder): string | null {
  const port = readPort(folder);
  return port === null ? null : `http://127.0.0.1:${port}`;
}
