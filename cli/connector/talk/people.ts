/** The peers on a terminal: their list, what was written with one of them, and what a person changes. */
import type { Clock } from "../../../shared/clock.ts";
import { call, get, post } from "../../../shared/client/local_client.ts";
import { ChangedPeer, type LocalPeer, LogPage } from "../../../shared/client/local_shapes.ts";
import { apiErrorOf } from "../../../shared/client/http.ts";
import { type Column, tableLines } from "../../terminal/tables.ts";
import { ALIAS, ALIAS_FORM } from "../peers/aliases.ts";
import { peerColumns } from "../peers/peer_columns.ts";
import { connectorPeers } from "../peers/peer_list.ts";
import type { Log } from "./log.ts";
import { edgeOf, messageLines } from "./log_text.ts";
import type { Prompt } from "./prompt.ts";
import type { TalkAgent } from "./talk_agent.ts";
import type { ConsoleView } from "./view.ts";

const HISTORY = 10;

export function noPeers(agent: TalkAgent): string {
  const none = Object.keys(agent.peers()).length === 0 ? "No peers yet" : "No peers: all pairs have ended";
  return `${none}. p makes a ticket for another person; paste one that you were given.`;
}

export class People {
  /**
   * The list that is on the screen. Without this copy its numbers would mean other peers as soon as another one
   * pairs.
   */
  #listed: { agent: string; peers: readonly LocalPeer[] } = { agent: "", peers: [] };

  constructor(private readonly deps: { clock: Clock; view: ConsoleView; log: Log; prompt: Prompt }) {}

  async list(agent: TalkAgent): Promise<void> {
    const { clock, log, view } = this.deps;
    const peers = await connectorPeers(agent.calls);
    this.#listed = { agent: agent.name, peers };
    if (peers.length === 0) return log.say(noPeers(agent));
    const numbers = new Map(peers.map((peer, i) => [peer, String(i + 1)]));
    const columns: Column<LocalPeer>[] = [{ head: "#", of: (peer) => numbers.get(peer) ?? "" }];
    log.lines(tableLines([...columns, ...peerColumns(clock.now())], peers, edgeOf(view.columns)));
    log.say(
      "1h shows what was written with the first one. 1n renames it, 1b blocks it or ends that, 1x ends the pair.",
      "dim",
    );
  }

  /** The peer with this number in the list that was shown; `null` without one. */
  find(agent: TalkAgent, number: number | null): LocalPeer | null {
    const { agent: shown, peers } = this.#listed;
    return shown === agent.name && number !== null ? peers[number - 1] ?? null : null;
  }

  /** Shows the newest messages with a peer, and marks none of them read. */
  async history({ calls, name }: TalkAgent, { alias, did }: { alias: string; did: string }): Promise<void> {
    const { clock, log, view } = this.deps;
    const query = new URLSearchParams({ peer: did, limit: String(HISTORY) });
    const { messages, next } = await call(calls, LogPage, get(`/v1/log?${query}`));
    if (messages.length === 0) return log.say(`No messages with ${alias}.`);
    view.show(messageLines(messages.reverse(), { columns: view.columns, now: clock.now(), isWhole: false }));
    if (next !== null) log.say(`There are older ones: svc log ${alias} --agent ${name} lists them.`, "dim");
  }

  rename(agent: TalkAgent, { alias, agentDid }: LocalPeer): void {
    const { log, prompt } = this.deps;
    prompt.pick(`new name of ${alias}› `, [], (text) => {
      const wanted = text.trim();
      if (!ALIAS.test(wanted)) return log.say(`Not a name: ${ALIAS_FORM}.`);
      prompt.run(async () => {
        const changed = await call(
          agent.calls,
          ChangedPeer,
          post("/v1/peers/rename", { peer: agentDid, alias: wanted }),
        );
        log.say(
          `${changed.agentName} of ${changed.humanName} is called ${changed.alias} here. ${alias} goes on working.`,
        );
      });
    });
  }

  async block(agent: TalkAgent, { alias, agentDid }: LocalPeer): Promise<void> {
    const { log } = this.deps;
    const peers = await connectorPeers(agent.calls);
    const isBlocked = peers.find((peer) => peer.agentDid === agentDid)?.blocked === true;
    const kind = isBlocked ? "unblock" : "block";
    await call(agent.calls, ChangedPeer, post(`/v1/peers/${kind}`, { peer: agentDid }));
    log.say(
      isBlocked
        ? `${alias} is not blocked: both can write to each other.`
        : `${alias} is blocked: its messages are refused, and nothing is sent to it. The same key ends that.`,
    );
  }

  remove(agent: TalkAgent, { alias, humanName, agentDid }: LocalPeer): void {
    const { log, prompt } = this.deps;
    const whom = `${alias} of ${humanName}`;
    prompt.ask(`End the pair with ${whom}? Neither can write to the other.`, async () => {
      const refused = apiErrorOf(await agent.calls.send(post("/v1/pair/remove", { peerAgentDid: agentDid })));
      if (refused !== null) throw refused;
      log.say(`The pair with ${whom} has ended.`);
    }, "The pair stays.");
  }
}
