/** What the clients of a chaos run saw, and the rules that it must keep. Pure. */

/** One fact, with its time in milliseconds since the start of the run. */
export type Fact =
  & { at: number }
  & (
    | { kind: "event"; what: string; untilMs: number }
    | { kind: "sent"; message: string; nonce: string; from: number; to: number; instance: number; request: number }
    | { kind: "answered"; request: number; as: "delivered" | "queued" | "refused" | "lost"; code: string }
    | { kind: "opened"; agent: number; link: number; instance: number }
    | { kind: "received"; message: string; agent: number; link: number }
    | { kind: "receipt"; message: string }
    | { kind: "revoking"; agent: number }
    | { kind: "revoked"; agent: number }
    | { kind: "unpairing"; agents: [number, number] }
    | { kind: "unpaired"; agents: [number, number] }
    | { kind: "won"; thing: string; by: string }
    | { kind: "live_tokens"; agent: number; count: number }
    | { kind: "stuck"; who: string; why: string }
    | { kind: "defect"; line: string }
  );

type Of<K extends Fact["kind"]> = Extract<Fact, { kind: K }>;

/** Time after an answer to a revocation within which a message may still be accepted. */
const REVOKED_MS = 1_000;

function of<K extends Fact["kind"]>(history: readonly Fact[], kind: K): Of<K>[] {
  return history.filter((fact): fact is Of<K> => fact.kind === kind);
}

/** A request with its answer. */
type Request = Of<"sent"> & { answer: Of<"answered"> | undefined };

function requestsOf(history: readonly Fact[]): Request[] {
  const answers = new Map(of(history, "answered").map((answer) => [answer.request, answer]));
  return of(history, "sent").map((sent) => ({ ...sent, answer: answers.get(sent.request) }));
}

const isAccepted = ({ answer }: Request) => answer?.as === "delivered" || answer?.as === "queued";

/** Returns the violated rules, one line each. */
export function violationsOf(history: readonly Fact[]): string[] {
  return [
    ...accepted(history),
    ...nonces(history),
    ...trust(history),
    ...oldLinks(history),
    ...singleUse(history),
    ...of(history, "live_tokens").filter(({ count }) => count > 1)
      .map(({ agent, count }) => `agent ${agent} has ${count} live refresh tokens`),
    ...of(history, "stuck").map(({ who, why }) => `${who} cannot work 30 s after the last fault: ${why}`),
    ...of(history, "defect").map(({ line }) => `an instance reports a defect: ${line}`),
  ];
}

/** A message answered as delivered or queued was received, or has a receipt. A queue ends with its recipient or pair. */
function accepted(history: readonly Fact[]): string[] {
  const arrived = new Set([...of(history, "received"), ...of(history, "receipt")].map(({ message }) => message));
  const gone = new Set(of(history, "revoking").map(({ agent }) => agent));
  const ended = of(history, "unpairing").map(({ agents }) => agents.join());
  return requestsOf(history).filter(isAccepted).flatMap(({ message, from, to, answer }) => {
    const mayEnd = gone.has(to) || gone.has(from) || ended.includes(`${from},${to}`) || ended.includes(`${to},${from}`);
    if (arrived.has(message) || (answer?.as === "queued" && mayEnd)) return [];
    return [`${message} from ${from} to ${to} was answered as ${answer?.as} and never arrived`];
  });
}

/** A nonce is accepted once, and refused as a replay only after another request with it. */
function nonces(history: readonly Fact[]): string[] {
  return [...Map.groupBy(requestsOf(history), ({ nonce }) => nonce)].flatMap(([, requests]) => {
    const [first] = requests;
    const problems: string[] = [];
    const taken = requests.filter(isAccepted).length;
    if (taken > 1) problems.push(`${first?.message}: its nonce was accepted ${taken} times`);
    if (requests.length === 1 && first?.answer?.code === "PROXY_AUTH_REPLAY") {
      problems.push(`${first.message}: its nonce was sent once and refused as a replay`);
    }
    return problems;
  });
}

/** No message that was sent a second after the answer to a revocation or pair removal is accepted. */
function trust(history: readonly Fact[]): string[] {
  const requests = requestsOf(history).filter(isAccepted);
  const late = (end: number, what: string, concerns: (request: Request) => boolean) =>
    requests.filter((request) => concerns(request) && request.at > end + REVOKED_MS)
      .map(({ message, at }) => `${message} was accepted, sent ${Math.round(at - end)} ms after ${what}`);
  return [
    ...of(history, "revoked").flatMap(({ agent, at }) =>
      late(at, `agent ${agent} was revoked`, ({ from }) => from === agent)
    ),
    ...of(history, "unpaired").flatMap(({ agents, at }) =>
      late(
        at,
        `the pair ${agents.join()} ended`,
        ({ from, to }) => agents.includes(from) && agents.includes(to),
      )
    ),
  ];
}

/**
 * A message sent after an agent opened a newer link does not arrive on an older one. A queued one may: the instance of the
 * older link may have read it before it knew of the newer one.
 */
function oldLinks(history: readonly Fact[]): string[] {
  const opened = of(history, "opened");
  const firstSent = new Map<string, number>(), mayQueue = new Set<string>();
  for (const { message, at, answer } of requestsOf(history)) {
    if (!firstSent.has(message)) firstSent.set(message, at);
    if (!answer || answer.as === "queued" || answer.as === "lost") mayQueue.add(message);
  }
  return of(history, "received").flatMap(({ message, agent, link }) => {
    const sent = firstSent.get(message) ?? 0;
    const newer = opened.find((one) => one.agent === agent && one.link > link && one.at < sent);
    if (!newer || mayQueue.has(message)) return [];
    return [
      `${message} arrived on link ${link} of agent ${agent}, sent ${Math.round(sent - newer.at)} ms after a newer one`,
    ];
  });
}

/** One winner of every single-use thing. */
function singleUse(history: readonly Fact[]): string[] {
  return [...Map.groupBy(of(history, "won"), ({ thing }) => thing)]
    .filter(([, winners]) => winners.length > 1)
    .map(([thing, winners]) => `${thing} was used by ${winners.map(({ by }) => by).join(" and by ")}`);
}

/** How many requests were answered how. */
export function countsOf(history: readonly Fact[]): string {
  const answers = of(history, "answered").map(({ as, code }) => as === "refused" && code ? code : as);
  return [...Map.groupBy(answers, (answer) => answer)].map(([answer, all]) => `${all.length} ${answer}`).join(", ");
}

/** A fact in one line. */
export function lineOf({ at, ...fact }: Fact): string {
  return `${String(Math.round(at)).padStart(6)} ${JSON.stringify(fact)}`;
}
