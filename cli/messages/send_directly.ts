/**
 * Sends a message when no connector runs. The rules and the stored rows are those of a connector, so that `svc sent`
 * lists the message. The connector's lock is held while something is written, but not during the request, because a
 * connector that starts meanwhile would find it taken.
 */
import { join } from "node:path";
import { apiErrorOf } from "../../shared/client/http.ts";
import type { SendResult } from "../../shared/client/local_client.ts";
import { OutboundResult } from "../../shared/client/local_shapes.ts";
import { ulidSource } from "../../shared/protocol/ids.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { NeedsConnectorError } from "../connector/attach.ts";
import { ConnectorLockedError, lockConnector } from "../connector/connector_lock.ts";
import { directProxy } from "../connector/file_credentials.ts";
import { outboundJson } from "../connector/local_api/message_json.ts";
import { PeerBook } from "../connector/peers/peer_book.ts";
import { aliasesOf, findPeer, noPeer, readPeers } from "../connector/peers/peers.ts";
import { isStrict, runtimeSettings } from "../connector/runtime/runtime_file.ts";
import { MessageSender, type MessageToSend } from "../connector/sending/message_sender.ts";
import { Database } from "../connector/store/database.ts";
import { PairSecrets } from "../connector/store/pairing_rows.ts";
import { SentMessages } from "../connector/store/sent_messages.ts";
import type { Context } from "../context.ts";
import { LoopGuard } from "../link/loop_guard.ts";
import type { ProxyCaller, ProxyRequest } from "../link/proxy_caller.ts";

/**
 * Sends a message, and returns what became known of it.
 *
 * @param to alias or DID
 * @throws {NeedsConnectorError} when the recipient may have a ticket of this agent; nothing was sent
 * @throws {ConnectorLockedError} when a connector runs; nothing was sent
 * @throws {ApiError} the refusal of the proxy, or of the rules of this machine as a connector answers it
 */
export async function sendDirectly(
  ctx: Context,
  folder: AgentFolder,
  { to, ...message }: Omit<MessageToSend, "toDid"> & { to: string },
): Promise<SendResult> {
  const { clock, random, out } = ctx;
  using direct = await directProxy(ctx, folder);
  const { did: toDid, proxy: origin } = await recipientOf(direct.proxy, folder, to);
  const proxy = direct.at(origin);
  let lock: Disposable | null = await lockConnector(folder, null);
  const release = () => {
    lock?.[Symbol.dispose]();
    lock = null;
  };
  using _lock = { [Symbol.dispose]: release };
  using database = Database.open(join(folder.path, "connector.db"));
  const peers = new PeerBook(readPeers(folder), () => Promise.resolve());
  // Only a connector checks what the recipient proves with a ticket. Without that, the server could read the message,
  // and the recipient would refuse it.
  const hasOpenTicket = new PairSecrets(database).open(clock.now()).length > 0;
  if (hasOpenTicket && peers.sealTo(toDid) === null) throw new NeedsConnectorError(toDid);
  const call = async (request: ProxyRequest) => {
    out.doing(`Calling ${proxy.place.dialUrl}`);
    release();
    try {
      return await proxy.call(request);
    } finally {
      lock = await lockConnector(folder, null).catch((error) => {
        // A connector has started. It finds the row of the message, and SQLite lets both processes write.
        if (error instanceof ConnectorLockedError) return null;
        throw error;
      });
    }
  };
  const sender = new MessageSender({
    clock,
    random,
    store: { sent: new SentMessages(database, () => {}), received: { question: () => null } },
    proxies: { of: () => ({ call }), hostOf: () => origin === undefined ? null : new URL(origin).host },
    peers,
    guard: new LoopGuard(),
    newId: ulidSource(() => clock.now(), (count) => random.bytes(count)),
    did: folder.identity().did,
    strict: isStrict(ctx, runtimeSettings(folder)?.file ?? null),
    emit: () => {},
  });
  const { sent, response } = await sender.send({ toDid, ...message });
  const refused = response && apiErrorOf(response);
  if (refused) throw refused;
  const json = outboundJson(sent, null, { replies: [], replyError: null }, peers);
  return { json, result: OutboundResult.parse(JSON.parse(json)) };
}

/**
 * Returns the DID of a peer, from a DID or an alias, and the origin of its home proxy for a peer of another server.
 * Reads the peers from the proxy when the alias is unknown.
 *
 * @throws {import("../../shared/client/errors.ts").ApiError} `CONNECTOR_PEER_UNKNOWN`, as a connector answers
 * @throws {import("../errors.ts").CliError} `CLI_FILE_INVALID`
 */
async function recipientOf(proxy: ProxyCaller, folder: AgentFolder, peer: string) {
  let peers = readPeers(folder);
  if (findPeer(peers, peer) === null) {
    const { updatePeers } = await import("../connector/peers/peer_list.ts");
    peers = (await updatePeers(proxy, folder)).known;
  }
  const did = findPeer(peers, peer);
  if (did === null) throw noPeer(peer, peers);
  return { did, proxy: peers[aliasesOf(peers).get(did) ?? ""]?.proxy };
}
