/**
 * Writes the documents of `docs/` that are generated from a table: one row of DOCUMENTS each. `--check` writes nothing,
 * names the stale documents and exits with 1. Contains no facts; they come from the tables.
 *
 *   deno run --allow-read --allow-write tests/tools/gen.ts [--check]
 */
import { CONNECTOR_CODES, LOCAL_ERRORS, type LocalCode } from "../../cli/local_errors.ts";
import { LIBRARY_ERRORS } from "../../cli/commands/explain.ts";
import { renderCliDoc } from "./cli_doc.ts";
import { allCommands, GROUPS } from "../../cli/commands/table.ts";
import { type ErrorCode, ERRORS, isErrorCode } from "../../shared/protocol/errors.ts";
import { CONNECTOR_LIMIT_TABLE } from "../../cli/connector/limits.ts";
import { LIMIT_TABLE, type LimitRow, LIMITS } from "../../shared/protocol/limits.ts";
import { AUTHENTICATORS as PROXY_AUTHENTICATORS, PROXY_ROUTES } from "../../proxy/routes.ts";
import { AUTHENTICATORS as REGISTRY_AUTHENTICATORS } from "../../registry/auth.ts";
import { REGISTRY_ROUTES } from "../../registry/routes.ts";
import { type Authenticators, COMMON_ERRORS, errorsOf, type Route } from "../../shared/server/http/route.ts";
import { limitsOf } from "../../shared/server/http/openapi.ts";
import { localApiDoc } from "./local_api_doc.ts";

const ROOT = new URL("../../", import.meta.url);

interface Document {
  /** From the project root. */
  path: string;
  /** Files with its table. */
  from: string[];
  /** Returns the text below the line with the sources. */
  render: () => string | Promise<string>;
}

const DOCUMENTS: readonly Document[] = [
  {
    path: "docs/errors.md",
    from: [
      "shared/protocol/errors.ts",
      "cli/local_errors.ts",
      "cli/commands/explain.ts",
    ],
    render: errors,
  },
  {
    path: "docs/limits.md",
    from: ["shared/protocol/limits.ts", "cli/connector/limits.ts"],
    render: limits,
  },
  {
    path: "docs/cli.md",
    from: ["cli/commands/table.ts"],
    render: async () => renderCliDoc(await allCommands(), GROUPS),
  },
  { path: "docs/local-api.md", from: ["cli/connector/local_api/local_routes.ts"], render: localApiDoc },
  { path: "docs/routes.md", from: ["registry/routes.ts", "proxy/routes.ts"], render: routes },
];

/** Returns a section for each group of the table, named by its comments: `// Proxy: pairing`. */
async function errors(): Promise<string> {
  const source = await Deno.readTextFile(new URL("shared/protocol/errors.ts", ROOT));
  const groups: { title: string; rows: string[] }[] = [];
  for (const [, title, code = ""] of source.matchAll(/^ {2}(?:\/\/ (.+)|([A-Z0-9_]+): \[.*)$/gm)) {
    if (title !== undefined) groups.push({ title, rows: [] });
    else if (isErrorCode(code)) groups.at(-1)?.rows.push(errorRow(code));
  }
  const grouped = groups.reduce((sum, { rows }) => sum + rows.length, 0);
  const codes = Object.keys(ERRORS).length;
  if (grouped !== codes) throw new Error(`Found ${grouped} of ${codes} codes under the group comments of errors.ts`);
  const sections = groups.filter(({ rows }) => rows.length > 0)
    .map(({ title, rows }) => `## ${title}\n\n${rows.join("")}`);
  return `# Errors\n\nThe error codes that a program can get: status, when it is sent and what to do. Act on the code and the status, because messages may change. \`svc explain <code>\` says the same, also of an error of the command itself.\n\n${
    [...sections, connectorErrors(), libraryErrors()].join("\n")
  }`;
}

/** Returns the section with the errors of the connector's local API. */
function connectorErrors(): string {
  const rows = CONNECTOR_CODES.map((code) => {
    const { status, when, fix } = LOCAL_ERRORS[code as LocalCode];
    return errorLine(code, [status], when, fix);
  });
  return `## The connector's local API\n\n${rows.join("")}`;
}

/** Returns the section with the errors of the client library. */
function libraryErrors(): string {
  const rows = Object.entries(LIBRARY_ERRORS).map(([code, { when, fix }]) => errorLine(code, [], when, fix));
  return `## The client library\n\n${rows.join("")}`;
}

function errorRow(code: ErrorCode): string {
  const { status, when, fix } = ERRORS[code];
  return errorLine(code, [status].flat(), when, fix);
}

/** A list, as for the limits: half of a table of short cells would be marks. */
function errorLine(code: string, numbers: readonly number[], when: string, fix: string): string {
  return `- \`${code}\`${numbers.length === 0 ? "" : ` (${numbers.join(" or ")})`}: ${plain(when)}. ${plain(fix)}\n`;
}

function limits(): string {
  return [
    "# Limits\n",
    "Every number that a client or an operator meets; [operations.md](operations.md#configuration) has those that an operator",
    "may set. What is larger is refused, because one caller could otherwise use up what all share; what is older is deleted,",
    "because the store would otherwise grow without bound.\n",
    "## The network and its clients\n",
    limitList(LIMIT_TABLE),
    "## The connector\n",
    limitList(CONNECTOR_LIMIT_TABLE),
  ].join("\n");
}

/** The end of the name of a number that an operator may set: docs/operations.md has it, and two homes would differ. */
const SETTABLE = ", by default";

/** Returns a list: a table of so many short rows would be half marks. */
function limitList(limits: Readonly<Record<string, LimitRow>>): string {
  return Object.values(limits).filter(([, , what]) => !what.endsWith(SETTABLE)).map(([value, unit, what]) => {
    const number = value.toLocaleString("en-US");
    return `- ${what}: ${unit === "count" ? number : `${number} ${unit}`}\n`;
  }).join("");
}

/** The limits that are the same for every route of a person, and of an admin at the proxy. */
const SHARED_LIMIT = /^\d+ in \d+ s per (?:person|admin)/;
/** The limit of every body that names no other one. */
const USUAL_BODY = `a body of ${bytesText(LIMITS.bodyBytes)}`;

function bytesText(bytes: number): string {
  return `${bytes.toLocaleString("en-US")} bytes`;
}

function routes(): string {
  const common = COMMON_ERRORS.map((code) => `\`${code}\``).join(", ");
  const person = REGISTRY_ROUTES.flatMap((route) => limitsOf(route, {})).find((text) => SHARED_LIMIT.test(text));
  const admin = PROXY_ROUTES.flatMap((route) => limitsOf(route, {})).find((text) => SHARED_LIMIT.test(text));
  return [
    "# Routes\n",
    "Every route of the registry and the proxy: who may call it, how often, and what it answers.\n",
    `Success is 200, unless the line of a route names another status. Each route can also answer ${common}, and a route`,
    "with a limit `RATE_LIMIT_EXCEEDED`. The codes and the limit of each kind of caller stand below the routes of its service.",
    `All routes with an API key together take ${person}, because more keys would otherwise give`,
    `more requests. All routes with an admin token take ${admin}, because looks take time from messages.`,
    `A body has at most ${bytesText(LIMITS.bodyBytes)}, unless its route names another limit, and at most`,
    `${bytesText(LIMITS.bodyFreeBytes)} at a route that takes none, because larger ones would fill the memory.`,
    "[errors.md](errors.md) says what a code means.\n",
    ...routeLists("Registry", REGISTRY_ROUTES, REGISTRY_AUTHENTICATORS),
    ...routeLists("Proxy", PROXY_ROUTES, PROXY_AUTHENTICATORS),
  ].join("\n");
}

/**
 * Returns the routes of a service, each with the codes of its handler, and what its callers add: those with the fewest
 * codes first, so that the others name them instead of spelling their codes again.
 */
function routeLists<D, C>(title: string, routes: readonly Route<D>[], authenticators: Authenticators<D, C>): string[] {
  const codes = (names: readonly string[]) => names.map((code) => `\`${code}\``).join(", ");
  const rows = routes.filter(({ isPage }) => !isPage).map((route) => {
    const authenticator = authenticators[route.auth as keyof C];
    const added = new Set<string>([...authenticator.errors, ...COMMON_ERRORS, "RATE_LIMIT_EXCEEDED"]);
    const limits = limitsOf(route, {}).filter((text) => text !== USUAL_BODY);
    const bounds = limits.filter((text) => !SHARED_LIMIT.test(text));
    const errors = codes(errorsOf(route, authenticator).filter((code) => !added.has(code)));
    const about = [...route.auth === "none" ? [] : [`\`${route.auth}\``], ...bounds].join("; ");
    const { status } = route.response;
    const answers = [...status === 200 ? [] : [` Answers ${status}.`], ...errors === "" ? [] : [` Errors: ${errors}.`]];
    const caller = about === "" ? "" : ` (${about})`;
    return `- \`${route.method} ${route.path}\`${caller}: ${plain(route.summary)}.${answers.join("")}`;
  });
  const codesOf = (auth: string) => authenticators[auth as keyof C].errors;
  const named = [...new Set(routes.map(({ auth }) => auth))].filter((auth) => auth !== "none")
    .sort((a, b) => codesOf(a).length - codesOf(b).length);
  const callers = named.map((auth, i) => {
    const { limit, errors } = authenticators[auth as keyof C];
    const [base] = named.slice(0, i).filter((other) =>
      codesOf(other).length > 1 && codesOf(other).every((code) => errors.includes(code))
    ).sort((a, b) => codesOf(b).length - codesOf(a).length);
    const own = errors.filter((code) => base === undefined || !codesOf(base).includes(code));
    const text = [...base === undefined ? [] : [`codes of \`${base}\``], ...own.length === 0 ? [] : [codes(own)]];
    return `- \`${auth}\`${limit === undefined ? "" : ` (${limit})`}: ${text.join(", ")}`;
  });
  return [`## ${title}\n`, ...rows, "\nCodes that a caller adds:\n", ...callers, ""];
}

/** Escapes characters of HTML and of Markdown outside of code spans, and joins lines. */
function plain(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, " ")
    .replaceAll(/`[^`]*`|[\\<]/g, (part) => part === "<" ? "&lt;" : part === "\\" ? "\\\\" : part);
}

async function written({ from, render }: Document): Promise<string> {
  const files = from.map((file) => `\`${file}\``).join(" and ");
  return `<!-- Generated by \`deno task gen\` from ${files}. Do not edit. -->\n\n${await render()}`;
}

async function onDisk(path: string): Promise<string | null> {
  try {
    return await Deno.readTextFile(new URL(path, ROOT));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

if (import.meta.main) {
  const checkOnly = Deno.args.includes("--check");
  let stale = 0;
  for (const document of DOCUMENTS) {
    const { path } = document, text = await written(document);
    if (await onDisk(path) === text) continue;
    stale++;
    console.log(checkOnly ? `${path} is stale` : `${path} written`);
    if (checkOnly) continue;
    await Deno.mkdir(new URL("./", new URL(path, ROOT)), { recursive: true });
    await Deno.writeTextFile(new URL(path, ROOT), text);
  }
  if (stale === 0) console.log(`${DOCUMENTS.length} documents are up to date`);
  else if (checkOnly) {
    console.error("Run: deno task gen");
    Deno.exit(1);
  }
}
