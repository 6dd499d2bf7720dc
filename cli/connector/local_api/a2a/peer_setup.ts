/** Adds, lists and removes local A2A addresses of peers for the commands of `svc a2a` (D-135). */
import { toBase64Url } from "../../../../shared/protocol/base64url.ts";
import { toIso } from "../../../../shared/protocol/time.ts";
import { type AgentFolder, AgentStore } from "../../../agents/agent_store.ts";
import type { Context } from "../../../context.ts";
import { CliError } from "../../../errors.ts";
import { CARD_PATH } from "../../../platforms/a2a_protocol.ts";
import { thisMachine } from "../../../platforms/local_machine.ts";
import { withA2aPeer } from "../../../platforms/openclaw.ts";
import { applyChanges } from "../../../platforms/setup.ts";
import { call, get, type LocalCalls } from "../../../../shared/client/local_client.ts";
import { peerUnknown } from "../../peers/peers.ts";
import { Status } from "../../status.ts";
import { readPort } from "../discovery_file.ts";
import { a2aPath, type A2aPeer, makePeerToken, peerTokenHash, readA2aPeers, writeA2aPeers } from "../a2a_peers.ts";

export interface AddedPeer {
  url: string;
  card: string;
  token: string;
  /** The settings file of OpenClaw that was changed; `null` when none was. */
  changed: string | null;
  /** Name of the peer for OpenClaw; `null` when its settings were not changed. */
  target: string | null;
}

/**
 * Adds a peer, or gives it a new token.
 *
 * @param isForOpenClaw whether the address is written into the settings of OpenClaw
 * @throws {CliError} `CLI_USAGE` before the first start of the connector, which chooses the port; `CLI_BUSY` while
 * another program has it, because the client would send its token and its messages to that program
 */
export async function addPeer(
  ctx: Context,
  { folder, client }: { folder: AgentFolder; client: LocalCalls | null },
  { alias, did }: { alias: string; did: string },
  isForOpenClaw: boolean,
  stateDir: string | null,
): Promise<AddedPeer> {
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
  const token = makePeerToken(ctx.random);
  return await new AgentStore(ctx).lock(folder.name, async () => {
    const others = readA2aPeers(folder).filter((known) => known.did !== did && known.alias !== alias);
    const added: A2aPeer = { alias, did, tokenHash: peerTokenHash(token), addedAt: toIso(ctx.clock.now()) };
    const inboundToken = toBase64Url(ctx.random.bytes(32));
    const peer = { url, token: inboundToken, outboundToken: token };
    const change = isForOpenClaw ? await withA2aPeer(thisMachine(ctx), stateDir, alias, peer) : null;
    await writeA2aPeers(folder, [...others, added]);
    if (change !== null) await applyChanges(ctx, folder, [change]);
    const target = change && `a2a:${change.name}`;
    return { url, card: url + CARD_PATH, token, changed: change && change.path, target };
  });
}

/** Whether the agent's port is that of its connector, or free for it. */
async function isOwnPort(ctx: Context, origin: string, client: LocalCalls | null): Promise<boolean> {
  if (client !== null) {
    const { api } = await call(client, Status.pick({ api: true }), get("/v1/status"));
    return (api?.movedFrom ?? null) === null;
  }
  return !(await ctx.reach?.(origin) ?? false);
}

/** The peers with their addresses; `url` is `null` before the first start of the connector. */
export function listPeers(folder: AgentFolder) {
  const origin = originOf(folder);
  return readA2aPeers(folder).map(({ alias, did, addedAt }) => ({
    alias,
    agentDid: did,
    url: origin === null ? null : origin + a2aPath(alias),
    addedAt,
  }));
}

/** Removes a peer by alias or DID. @throws {ApiError} `CONNECTOR_PEER_UNKNOWN` when it has no address */
export async function removePeer(ctx: Context, folder: AgentFolder, named: string): Promise<A2aPeer> {
  return await new AgentStore(ctx).lock(folder.name, async () => {
    const peers = readA2aPeers(folder);
    const found = peers.find(({ alias, did }) => alias === named || did === named);
    if (found === undefined) throw peerUnknown(`${named} has no A2A address`);
    await writeA2aPeers(folder, peers.filter((peer) => peer !== found));
    return found;
  });
}

function originOf(folder: AgentFolder): string | null {
  const port = readPort(folder);
  return port === null ? null : `http://127.0.0.1:${port}`;
}
