/** Pairing on a terminal: the ticket that is shown, and the one that is pasted. */
import type { Clock } from "../../../shared/clock.ts";
import { call, post } from "../../../shared/client/local_client.ts";
import { PairConfirmAnswer, PairStartAnswer } from "../../../shared/protocol/api/pairing.ts";
import { ticketInPaste } from "../../../shared/protocol/pasted_ticket.ts";
import { parseTicket, type Ticket } from "../../../shared/protocol/ticket.ts";
import { aliasesOf } from "../peers.ts";
import { formatDuration } from "../status.ts";
import type { Log } from "./log.ts";
import type { TalkAgent } from "./talk_agent.ts";
import { ticketPicture } from "./ticket_picture.ts";
import type { ConsoleView } from "./view.ts";

export class Tickets {
  /** The ticket that is shown. */
  #open: { agent: string; text: string; until: number } | null = null;

  constructor(private readonly deps: { clock: Clock; log: Log; view: ConsoleView }) {}

  /** Whether a ticket was shown and is not used yet. */
  get isOpen(): boolean {
    return this.#open !== null;
  }

  /** A ticket was confirmed, so the one that was shown is used up. */
  used(): void {
    this.#open = null;
  }

  /** Shows a ticket, whichever program asked for it. `whose` names its agent where there are several. */
  show(agent: string, text: string, until: string, whose: string): void {
    const { clock, log } = this.deps;
    this.#open = { agent, text, until: Date.parse(until) };
    const left = formatDuration(this.#open.until - clock.now());
    log.say(`${whose}Give this ticket to the other person. It works once, for ${left}.`);
    log.lines(["       It is a secret. They paste it into the terminal of their connector.", "", text, ""]);
  }

  /** Makes a ticket; while one is open, shows it as a picture that another device can read. */
  async make(agent: TalkAgent): Promise<void> {
    const { clock, view } = this.deps;
    const open = this.#open;
    if (open === null || open.agent !== agent.name || open.until <= clock.now()) {
      const { ticket, expiresAt } = await call(agent.calls, PairStartAnswer, post("/v1/pair/start", {}));
      // A connector of this process has shown it already, as it does for every caller of the route.
      if (this.#open?.text !== ticket) this.show(agent.name, ticket, expiresAt, "");
      return;
    }
    // A picture that is cut cannot be read, so it is as wide as it is.
    view.show(await ticketPicture(open.text, view.columns ?? 80, view.rows ?? 24));
  }

  /** Shows the command of an invite that also pairs. */
  async invite(agent: TalkAgent): Promise<void> {
    const { log, view } = this.deps;
    const command = await agent.invite();
    if (command === null) return log.say("Only an administrator invites. With a person who has an account: p.");
    log.say("Give this command to the other person. It works once; its pairing part for 15 min.");
    log.lines(["       It is a secret, like a password. It makes an account and pairs with you."]);
    // Whole, in one line: a person copies it, and a break would be part of it.
    view.show(["", command, ""]);
  }

  /** The ticket of a paste, if the agent can pair with it; says why not. */
  find(agent: TalkAgent, text: string): Ticket | null {
    const { log } = this.deps;
    const origin = agent.status()?.proxy.origin;
    if (origin === undefined) return null;
    const { host } = new URL(origin);
    const found = ticketInPaste(text, origin);
    if ("problem" in found) log.say(found.problem);
    else if (found.ticket.authority !== host && found.ticket.pairSecret === null) {
      log.say(`This ticket is from another server, ${found.ticket.authority}, and proves no key. Ask for another one.`);
    } else if (found.ticket.plain === parseTicket(this.#open?.text ?? "")?.plain) {
      log.say("This is your own ticket. Give it to the other person.");
    } else return found.ticket;
    return null;
  }

  /** Confirms a ticket, and returns the DID of the agent that made it. */
  async confirm(agent: TalkAgent, { ticket }: Ticket): Promise<string> {
    const answer = await call(agent.calls, PairConfirmAnswer, post("/v1/pair/confirm", { ticket }));
    const { initiatorAgentDid: did, initiatorProfile: { agentName, humanName } } = answer;
    const alias = aliasesOf(agent.peers()).get(did);
    const known = alias === undefined || alias === agentName ? "" : ` It is called ${alias} here.`;
    this.deps.log.met(did);
    this.deps.log.say(`Paired with ${agentName} of ${humanName}.${known}`);
    return did;
  }
}
