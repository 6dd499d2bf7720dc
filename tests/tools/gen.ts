/**
 * Writes the documents of `docs/` that are generated from a table: one row of DOCUMENTS each. `--check` writes nothing,
 * names the stale documents and exits with 1. Contains no facts; they come from the tables.
 *
 *   deno run --allow-read --allow-write tests/tools/gen.ts [--check]
 */
import { CONNECTOR_CODES, LOCAL_ERRORS, type LocalCode } from "../../cli/connector/local_api/local_errors.ts";
import { CLI_ERRORS } from "../../cli/errors.ts";
import { LIBRARY_ERRORS } from "../../shared/client/library/library_errors.ts";
import { renderCliDoc } from "../../cli/command_line/help.ts";
import { COMMANDS, GROUPS } from "../../cli/commands/table.ts";
import { type ErrorCode, ERRORS, isErrorCode } from "../../shared/protocol/errors.ts";
import { CONNECTOR_LIMIT_TABLE } from "../../cli/connector/limits.ts";
import { MCP_LIMIT_TABLE } from "../../cli/mcp/limits.ts";
import { CLIENT_LIMIT_TABLE } from "../../shared/client/limits.ts";
import { LIMIT_TABLE } from "../../shared/protocol/limits.ts";
import { AUTHENTICATORS as PROXY_AUTHENTICATORS, PROXY_ROUTES } from "../../proxy/routes.ts";
import { AUTHENTICATORS as REGISTRY_AUTHENTICATORS } from "../../registry/auth.ts";
import { REGISTRY_ROUTES } from "../../registry/routes.ts";
import { type Authenticators, errorsOf, type Route } from "../../shared/server/http/route.ts";
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
      "cli/errors.ts",
      "cli/connector/local_api/local_errors.ts",
      "shared/client/library/library_errors.ts",
    ],
    render: errors,
  },
  {
    path: "docs/limits.md",
    from: ["shared/protocol/limits.ts", "cli/connector/limits.ts", "shared/client/limits.ts"],
    render: limits,
  },
  { path: "docs/cli.md", from: ["cli/commands/table.ts"], render: () => renderCliDoc(COMMANDS, GROUPS) },
  { path: "docs/local-api.md", from: ["cli/connector/local_api/local_routes.ts"], render: localApiDoc },
  { path: "docs/routes.md", from: ["registry/routes.ts", "proxy/routes.ts"], render: routes },
];

/** Returns a section for each group of the table, named by its comments: `// Proxy: pairing`. */
async function errors(): Promise<string> {
  const source = await Deno.readTextFile(new URL("shared/protocol/errors.ts", ROOT));
  const groups: { title: string; rows: string[][] }[] = [];
  for (const [, title, code = ""] of source.matchAll(/^ {2}(?:\/\/ (.+)|([A-Z0-9_]+): \{.*)$/gm)) {
    if (title !== undefined) groups.push({ title, rows: [] });
    else if (isErrorCode(code)) groups.at(-1)?.rows.push(errorRow(code));
  }
  const grouped = groups.reduce((sum, { rows }) => sum + rows.length, 0);
  const codes = Object.keys(ERRORS).length;
  if (grouped !== codes) throw new Error(`Found ${grouped} of ${codes} codes under the group comments of errors.ts`);
  const head = ["Code", "Status", "When", "What to do", "Origin"];
  const sections = groups.filter(({ rows }) => rows.length > 0)
    .map(({ title, rows }) => `## ${title}\n\n${table(head, rows)}`);
  return `# Errors\n\n${[...sections, commandErrors(), connectorErrors(), libraryErrors()].join("\n")}`;
}

/** Returns the section with the errors of the command svc. */
function commandErrors(): string {
  const rows = Object.entries(CLI_ERRORS).map((
    [code, { exit, when, fix }],
  ) => [`\`${code}\``, String(exit), when, fix]);
  return `## The command svc\n\n${table(["Code", "Exit code", "When", "What to do"], rows)}`;
}

/** Returns the section with the errors of the connector's local API. */
function connectorErrors(): string {
  const rows = CONNECTOR_CODES.map((code) => {
    const { status, when, fix } = LOCAL_ERRORS[code as LocalCode];
    return [`\`${code}\``, String(status), when, fix];
  });
  return `## The connector's local API\n\n${table(["Code", "Status", "When", "What to do"], rows)}`;
}

/** Returns the section with the errors of the client library. */
function libraryErrors(): string {
  const rows = Object.entries(LIBRARY_ERRORS).map(([code, { when, fix }]) => [`\`${code}\``, when, fix]);
  return `## The client library\n\n${table(["Code", "When", "What to do"], rows)}`;
}

function errorRow(code: ErrorCode): string[] {
  const { status, when, fix, origin } = ERRORS[code];
  return [`\`${code}\``, [status].flat().join(" or "), when, fix, origin];
}

function limits(): string {
  return [
    "# Limits\n",
    limitTable(LIMIT_TABLE),
    "## The connector\n",
    limitTable(CONNECTOR_LIMIT_TABLE),
    "## The MCP server\n",
    limitTable(MCP_LIMIT_TABLE),
    "## Commands and the client library\n",
    limitTable(CLIENT_LIMIT_TABLE),
  ].join("\n");
}

function limitTable(limits: Readonly<Record<string, Record<"unit" | "what" | "source", string> & { value: number }>>) {
  const rows = Object.entries(limits).map(([name, { value, unit, what, source }]) => [
    `\`${name}\``,
    value.toLocaleString("en-US"),
    unit,
    what,
    source,
  ]);
  return table(["Name", "Value", "Unit", "What", "Source"], rows);
}

function routes(): string {
  return [
    "# Routes\n",
    "## Registry\n",
    routeTable(REGISTRY_ROUTES, REGISTRY_AUTHENTICATORS),
    "## Proxy\n",
    routeTable(PROXY_ROUTES, PROXY_AUTHENTICATORS),
  ].join("\n");
}

function routeTable<D, C>(routes: readonly Route<D>[], authenticators: Authenticators<D, C>): string {
  const rows = routes.map((route) => {
    const { method, path, summary, auth, response } = route;
    const authenticator = authenticators[auth as keyof C];
    return [
      `\`${method} ${path}\``,
      summary,
      `\`${auth}\``,
      limitsOf(route, authenticator).join("; ") || "none",
      String(response.status),
      errorsOf(route, authenticator).map((code) => `\`${code}\``).join(" "),
    ];
  });
  return table(["Route", "What it does", "Caller", "Limit", "Success", "Errors"], rows);
}

function table(head: string[], rows: string[][]): string {
  const line = (cells: string[]) => `| ${cells.map(cell).join(" | ")} |\n`;
  return line(head) + line(head.map(() => "---")) + rows.map(line).join("");
}

/** Escapes characters that end a cell or are HTML; in code spans only `|`. */
function cell(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, " ")
    .replaceAll(/`[^`]*`|[\\<]/g, (part) => part === "<" ? "&lt;" : part === "\\" ? "\\\\" : part)
    .replaceAll("|", "\\|");
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
    const { path } = document;
    const text = await written(document);
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
