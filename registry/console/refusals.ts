/** Shows refused requests on the console's pages: in words, why, and what to do about them. */
import { agentCell, type NamedAgent, sentence } from "./frame.ts";
import { type Html, markup, type Value } from "../../shared/page/html.ts";
import * as ui from "../../shared/page/parts.ts";
import { exactly, when } from "../../shared/page/times.ts";
import { type ErrorCode, ERRORS, isErrorCode } from "../../shared/protocol/errors.ts";
import type { Refusal, RefusalGroup } from "../../shared/protocol/api/relay_admin.ts";

/** How many checks of a request the proxy makes. */
const CHECKS = 9;
const TOO_MANY = { mood: "warn", text: "Too many requests", todo: () => "Ask its owner, or end its session." } as const;
/** Codes that an operator meets often, in words and with what to do. Others get the words of the error table. */
const REASONS: { readonly [C in ErrorCode]?: { mood: ui.Mood; text: string; todo(agent: string): Value } } = {
  RATE_LIMIT_EXCEEDED: TOO_MANY,
  PROXY_RATE_LIMIT_EXCEEDED: TOO_MANY,
  PROXY_AUTH_INVALID_AIT: {
    mood: "bad",
    text: "Identity not valid",
    // If the agent's name is not known, the command is not shown, because it could not be pasted without the name.
    todo: (agent) =>
      agent === ""
        ? ERRORS.PROXY_AUTH_INVALID_AIT.fix
        : markup`The owner runs <code>svc agent reissue ${agent}</code>.`,
  },
  PROXY_AUTH_REVOKED: {
    mood: "bad",
    text: "Identity revoked",
    todo: () => "Nothing, when the revocation was meant.",
  },
  PROXY_AUTH_FORBIDDEN: { mood: "", text: "Not paired", todo: () => "Nothing: the pair has ended, or never was." },
  PROXY_RELAY_CONNECTOR_OFFLINE: {
    mood: "",
    text: "Recipient offline",
    todo: () => "Nothing: the sender did not let this message wait.",
  },
  PROXY_RELAY_DELIVERY_FAILED: {
    mood: "warn",
    text: "Not acknowledged",
    todo: () => "When it happens often, ask the owner of the recipient about its connector.",
  },
  PROXY_AUTH_TIMESTAMP_SKEW: {
    mood: "bad",
    text: "Clock is wrong",
    todo: () => "The owner sets the clock of the machine. If every agent has this, set that of the server.",
  },
};

export function refusalTable(
  groups: readonly RefusalGroup[],
  base: string,
  names: ReadonlyMap<string, NamedAgent>,
): Html {
  if (groups.length === 0) return ui.note("ok", "No refusals in the last hour.");
  return ui.table({
    caption: "Refusals of this hour and the one before, by reason and agent",
    id: "need",
    columns: ["Reason", "Agent", { number: "Times" }, "What to do"],
    rows: groups.map(({ code, agentDid, count }) => ({
      cells: [
        reasonCell(code),
        agentCell(base, names, agentDid),
        ui.number(count),
        markup`<small>${todoOf(code, names.get(agentDid ?? "")?.name ?? "")}</small>`,
      ],
    })),
  });
}

export function latestRefusals(refusals: readonly Refusal[], agent: string, now: number): Html {
  if (refusals.length === 0) {
    return ui.section("Its latest refusals", markup`<p class="small soft">None since this instance started.</p>`);
  }
  const rows = refusals.map((refusal) => ({
    cells: [
      when(refusal.at, now),
      reasonCell(refusal.code),
      markup`<small>${todoOf(refusal.code, agent)}</small>`,
      markup`<span class="id">${refusal.requestId}</span>`,
    ],
  }));
  const columns = ["Time, UTC", "Reason", "What to do", "Request"];
  return ui.section("Its latest refusals", ui.table({ caption: "Latest refusals of this agent", columns, rows }));
}

export function refusedCard(
  { at, code, check, method, route, agentDid }: Refusal,
  { agents, now }: { agents: ReadonlyMap<string, NamedAgent>; now: number },
): Html {
  const name = agents.get(agentDid ?? "")?.name ?? "", agent = name || (agentDid ?? "");
  const steps = ui.timeline([
    {
      mood: "",
      title: agent === "" ? "Request without a verified identity" : markup`Request of ${ui.name(agent)}`,
      text: markup`${exactly(at, now)} · ${method} ${route ?? ""}`,
    },
    {
      mood: "bad",
      title: isErrorCode(code) ? REASONS[code]?.text ?? sentence(ERRORS[code].when) : code,
      text: markup`${todoOf(code, name)} <span class="id">${code}</span>`,
    },
  ]);
  return markup`<section class="card form"><div class="row spread"><h2>Refused</h2>${
    check !== null && ui.tag("bad", `at check ${check} of ${CHECKS}`)
  }</div>${steps}</section>`;
}

function reasonCell(code: string): Html {
  const known = isErrorCode(code) ? REASONS[code] : undefined;
  const text = isErrorCode(code) ? sentence(ERRORS[code].when).slice(0, -1) : code;
  // A long reason is plain text, because a tag does not wrap.
  return markup`${
    known === undefined ? markup`<span>${text}</span>` : ui.tag(known.mood, known.text)
  }<small class="id">${code}</small>`;
}

function todoOf(code: string, agent: string): Value {
  return isErrorCode(code) ? REASONS[code]?.todo(agent) ?? ERRORS[code].fix : "";
}
