/** Pairing on a terminal: the ticket that is shown, and the one that is pasted. */
import { type Clock, settledWithin } from "../../../shared/clock.ts";
import { ApiError } from "../../../shared/client/errors.ts";
import { call, post } from "../../../shared/client/local_client.ts";
import { PairConfirmAnswer, PairStartAnswer, PairStatusAnswer } from "../../../shared/protocol/api/pairing.ts";
import { mayPair, PAIRING_SERVERS } from "../../../shared/protocol/origins.ts";
import { OWN_TICKET, parseTicket, type Ticket, ticketInPaste } from "../../../shared/protocol/ticket.ts";
import { EVENTS, pairedFields } from "../events.ts";
import { aliasesOf } from "../peers/peers.ts";
import { formatDuration } from "../../terminal/times.ts";
import type { Log } from "./log.ts";
import type { TalkAgent } from "./talk_agent.ts";
import type { ConsoleView } from "./view.ts";
import { wordWrap } from "../../terminal/text_width.ts";

export class Tickets {
  #open: { agent: string; text: string; until: number } | null = null;

  constructor(private readonly deps: { clock: Clock; log: Log; view: ConsoleView }) {}

  /**
   * Notes a new peer. A peer with a proof has used up the ticket that was shown. One without a proof uses up only a
   * ticket that proves nothing, because the proxy can list any agent while the ticket is on its way.
   */
  paired(hasProof: boolean): void {
    if (hasProof || parseTicket(this.#open?.text ?? "")?.pairSecret === null) this.#open = null;
  }

  /** Shows a ticket, whichever program asked for it. */
  show(agent: string, text: string, until: string): void {
    const { clock, log } = this.deps;
    this.#open = { agent, text, until: Date.parse(until) };
    const left = formatDuration(this.#open.until - clock.now());
    log.say(`${log.whose({ name: agent })}Give this ticket to the other person. It works once, for ${left}.`);
    log.lines(["       It is a secret. They paste it into the terminal of their connector.", "", text, ""]);
  }

  /** Makes a ticket; while one is open, shows it as a picture that another device can read. */
  async make(agent: TalkAgent): Promise<void> {
    const { clock, log, view } = this.deps;
    const open = this.#open;
    const isOpen = open !== null && open.agent === agent.name && open.until > clock.now();
    if (!isOpen || await isUsed(clock, agent, open.text)) {
      const { ticket, expiresAt } = await call(agent.calls, PairStartAnswer, post("/v1/pair/start", {}));
      // A connector of this process has shown it already, as it does for every caller of the route.
      if (this.#open?.text !== ticket) this.show(agent.name, ticket, expiresAt);
      return;
    }
    const picture = await ticketPicture(open.text, view.columns ?? 80, view.rows ?? 24);
    // The picture is not wrapped, because one that is broken into lines cannot be read.
    if (typeof picture === "string") log.say(picture);
    else view.show(picture);
  }

  async invite(agent: TalkAgent): Promise<void> {
    const { log, view } = this.deps;
    const command = await agent.invite();
    if (command === null) return log.say("Only an administrator invites. With a person who has an account: p.");
    log.say("Give this command to the other person. It works once; its pairing part for 15 min.");
    log.lines(["       It is a secret, like a password. It makes an account and pairs with you."]);
    // Whole, in one line, because a person copies it, and a break would be part of it.
    view.show(["", command, ""]);
  }

  /** Returns the ticket in a paste if the agent can pair with it, else says why not. */
  find(agent: TalkAgent, text: string): Ticket | null {
    const { log } = this.deps;
    const origin = agent.status()?.proxy.origin;
    if (origin === undefined) {
      log.say("The connector does not answer now, so nothing is paired. Paste the ticket again later.");
      return null;
    }
    const { host } = new URL(origin);
    // Only for its own agent, because another agent of this terminal may pair with the ticket.
    const own = this.#open?.agent === agent.name ? parseTicket(this.#open.text) : null;
    const found = ticketInPaste(text, origin);
    if ("problem" in found) log.say(found.problem);
    else if (found.ticket.authority !== host && !mayPair(origin, found.ticket.origin)) {
      log.say(`This ticket is from another server, ${found.ticket.authority}. ${PAIRING_SERVERS}`);
    } else if (found.ticket.authority !== host && found.ticket.pairSecret === null) {
      log.say(`This ticket is from another server, ${found.ticket.authority}, and proves no key. Ask for another one.`);
    } else if (found.ticket.plain === own?.plain) {
      log.say(OWN_TICKET);
    } else return found.ticket;
    return null;
  }

  /** Pairs. Returns the DID of the peer; `null` when the ticket is over. */
  async confirm(agent: TalkAgent, { ticket }: Ticket): Promise<string | null> {
    const confirming = call(agent.calls, PairConfirmAnswer, post("/v1/pair/confirm", { ticket }));
    const answer = await confirming.catch((error) => {
      if (!(error instanceof ApiError && error.code === "PROXY_PAIR_TICKET_EXPIRED")) throw error;
      this.deps.log.say("This ticket is over. The other person presses p again.");
      return null;
    });
    if (answer === null) return null;
    const { initiatorAgentDid: did, initiatorProfile } = answer, { log } = this.deps;
    const fields = pairedFields(aliasesOf(agent.peers()).get(did) ?? null, initiatorProfile);
    log.met(did);
    log.say(log.whose(agent) + EVENTS.paired({ ...fields, end: "" }));
    return did;
  }
}

/** How long `p` waits for the state of a ticket. With more, the keys do nothing while the server does not answer. */
const STATUS_MS = 3_000;

/** Whether a ticket pairs no agent now, also because one without a proof has used it. False when that is not known. */
async function isUsed(clock: Clock, { calls }: TalkAgent, ticket: string): Promise<boolean> {
  const asking = call(calls, PairStatusAnswer, post("/v1/pair/status", { ticket })).then(
    ({ status }) => status === "confirmed",
    (error) => error instanceof ApiError && error.code?.startsWith("PROXY_PAIR_TICKET_") === true,
  );
  return await settledWithin(clock, asking, STATUS_MS) && await asking;
}

/** Columns for the text beside the code, and rows below it for the ticket, the live line and a blank row at each. */
const BESIDE = 30;
const BELOW = 4;
const TEXT = [
  "Give this ticket to the other person.",
  "It is a secret.",
  "They paste it into the terminal of their connector.",
];

/** The lines of a QR code with what to do beside it; a sentence when the terminal is too small for it. */
async function ticketPicture(ticket: string, columns: number, rows: number): Promise<string[] | string> {
  const { renderUnicodeCompact } = await import("uqr");
  const code = String(renderUnicodeCompact(ticket, { border: 2, ecc: "L" })).split("\n");
  const width = code[0]?.length ?? 0;
  if (columns < width + BESIDE || rows < code.length + BELOW) {
    return `The window is too small for the QR code: ${width + BESIDE} × ${code.length + BELOW} are needed.`;
  }
  const text = TEXT.flatMap((sentence) => [...wordWrap(sentence, columns - width - 3), ""]);
  return [...code.map((row, i) => `${row}  ${text[i] ?? ""}`.trimEnd()), ticket];
}
