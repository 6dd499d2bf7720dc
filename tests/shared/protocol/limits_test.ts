/**
 * Checks the table of limits (D-202): integers, units that fit the names, a source for each row, and no text of the
 * product that repeats a number. The numbers of decisions are listed here, those of requirements in spec_tables_test.ts.
 */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { CONNECTOR_LIMIT_TABLE, CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";
import { MCP_LIMIT_TABLE } from "../../../cli/mcp/limits.ts";
import { CLIENT_LIMIT_TABLE, CLIENT_LIMITS } from "../../../shared/client/limits.ts";
import { LIMIT_TABLE, type LimitName, LIMITS } from "../../../shared/protocol/limits.ts";

const rows = Object.entries(LIMIT_TABLE);
const connectorRows = [CONNECTOR_LIMIT_TABLE, CLIENT_LIMIT_TABLE, MCP_LIMIT_TABLE].flatMap((table) =>
  Object.entries(table)
);

/** Name and value, in the unit of the name. */
const DECIDED: [decision: string, name: LimitName, value: number][] = [
  ["D-12", "hookBodyBytes", 256 * 1024],
  ["D-12", "bodyBytes", 64 * 1024],
  ["D-12", "bodyTimeoutMs", 10_000],
  ["D-20", "aitBytes", 8 * 1024],
  ["D-20", "tokenLeewaySeconds", 60],
  ["D-21", "crlTtlSeconds", 900],
  ["D-21", "crlKeptSeconds", 3600],
  ["D-22", "keyDocumentMaxAgeSeconds", 300],
  ["D-25", "nonceGraceSeconds", 301],
  ["D-26", "ticketKeptSeconds", 86_400],
  ["D-33", "bootstrapFailures", 10],
  ["D-35", "apiKeyTouchMs", 60_000],
  ["D-38", "challengeKeptSeconds", 86_400],
  ["D-46", "serviceOverlapSeconds", 3600],
  ["D-51", "apiKeyRequests", 600],
  ["D-51", "redeemFailures", 60],
  ["D-60", "receiptRequestsFactor", 10],
  ["D-61", "keysTtlMs", 300_000],
  ["D-61", "keysGraceMs", 900_000],
  ["D-61", "keysRefetchMs", 30_000],
  ["D-61", "registryTimeoutMs", 5000],
  ["D-62", "crlMaxAgeMs", 900_000],
  ["D-62", "crlRetryMs", 10_000],
  ["D-62", "crlRetryMaxMs", 60_000],
  ["D-63", "accessCacheMaxMs", 5000],
  ["D-65", "agentRequestsMax", 1_000_000],
  ["D-65", "exactWindowRequests", 1000],
  ["D-67", "ackTimeoutMs", 10_000],
  ["D-69", "sameAnswerSeconds", 86_400],
  ["D-70", "socketsPerAgent", 4],
  ["D-70", "framesPerSecond", 50],
  ["D-70", "unsentBytes", 8 * 1024 * 1024],
  ["D-70", "drainMs", 3500],
  ["D-70", "shutdownMs", 5000],
  ["D-72", "deliveryKeptSeconds", 8 * 86_400],
  ["D-73", "openTickets", 20],
  ["docs/protocol.md#relay-frames", "frameBytes", 1024 * 1024],
  ["D-213", "connectorFrameBytes", 8 * 1024],
  ["docs/protocol.md#relay-frames", "silentSocketMs", 60_000],
  ["docs/protocol.md#relay-frames", "malformedFrames", 3],
  ["D-172", "adminTokenTtlSeconds", 300],
  ["D-172", "adminTokenBytes", 2048],
  ["D-172", "adminRequests", 600],
  ["D-270", "storeAwayCallMs", 1_000],
  ["D-270", "storeOpenCalls", 1_000],
  ["D-173", "seenKeptSeconds", 90 * 86_400],
  ["D-173", "deliveriesListed", 50],
  ["D-173", "refusalsPerCode", 50],
  ["D-254", "commitsInFlight", 16],
  ["D-259", "wheelTimerMs", 1_000],
  ["D-259", "wheelSlotMs", 250],
  ["D-260", "joiningWaitMs", 20],
  ["D-254", "claimsPassedOver", 500],
  ["D-255", "reliedMs", 1_000],
  ["D-208", "commitChecks", 100],
  ["D-208", "commitChecksConnect", 10],
  ["D-211", "preferLength", 256],
  ["D-211", "queryLength", 4096],
  ["D-211", "bodyPieces", 1024],
  ["D-140", "contextLines", 16],
  ["D-140", "contextValueLength", 1024],
  ["D-140", "contextBytes", 4096],
  ["D-240", "inputProblems", 20],
  ["D-241", "contentTypeLength", 256],
  ["D-273", "connectLateMs", 1_000],
];

Deno.test("the limits hold the numbers of the decisions, each with its source", async (t) => {
  for (const [decision, name, value] of DECIDED) {
    await t.step(`${decision} ${name}`, () => {
      assertEquals(LIMITS[name], value);
      assert(LIMIT_TABLE[name].source.includes(decision), LIMIT_TABLE[name].source);
    });
  }
});

Deno.test("rows of the limit tables are positive integers with a source and a description", () => {
  for (const [name, { value, source, what }] of [...rows, ...connectorRows]) {
    assert(Number.isSafeInteger(value) && value > 0, name);
    assertMatch(source, /^(R-\d{3}|docs\/[a-z]+\.md#[a-z-]+|D-\d{2,3}(, D-\d{2,3})*)$/);
    assert(what.trim() !== "", name);
  }
});

Deno.test("names of the limit tables end with their unit", () => {
  const units: [ending: RegExp, unit: string][] = [
    [/Ms$/, "ms"],
    [/[^r]Seconds$/, "s"],
    [/Bytes$/, "bytes"],
    [/Days(Min|Max|Default)$/, "days"],
    [/Requests(Max)?$/, "requests"],
  ];
  for (const [name, row] of [...rows, ...connectorRows]) {
    for (const [ending, unit] of units) {
      if (ending.test(name)) assertEquals(row.unit, unit, name);
      if (row.unit === unit && (unit === "ms" || unit === "bytes")) assertMatch(name, ending);
    }
  }
});

/** Texts that name the value of a limit and do not mean it: path, text, reason. */
const OTHER_NUMBERS: [path: string, text: string, reason: string][] = [
  [
    "cli/commands/provider/provider.ts",
    "Exits with 1 if the peer's runtime has not accepted the message within 30 s. Problems of this agent's own runtime",
    "the wait of the relay test, a number of the CLI",
  ],
  ["cli/commands/provider/provider.ts", "none within 30 s", "the wait of the relay test, a number of the CLI"],
  ["proxy/schema/kv_keys.ts", "60 s", "the lifetime of a note between instances, which is not a limit"],
  ["proxy/schema/kv_keys.ts", "60 s; deleted when it is read", "the lifetime of a note between instances"],
];

/** String literals and text parts of templates of a TypeScript file, by the parser of the linter. */
function stringsIn(path: string, text: string): string[] {
  const strings: string[] = [];
  const plugin: Deno.lint.Plugin = {
    name: "strings",
    rules: {
      all: {
        create: () => ({
          Literal: ({ value }) => void (typeof value === "string" && strings.push(value)),
          TemplateElement: ({ cooked }) => void strings.push(cooked),
        }),
      },
    },
  };
  Deno.lint.runPlugin(plugin, path, text);
  return strings;
}

/** Amounts in a text that equal a limit: seconds, minutes or KiB. */
function repeatedLimits(text: string): string[] {
  const times = new Set<number>(), sizes = new Set<number>();
  for (const [, { value, unit }] of rows) {
    if (unit === "ms") times.add(value);
    else if (unit === "s") times.add(value * 1000);
    else if (unit === "bytes") sizes.add(value);
  }
  return [...text.matchAll(/(?<![\d.,])(\d[\d,]*) (s|min|KiB)\b/g)].flatMap(([amount, digits = "", unit]) => {
    const n = Number(digits.replaceAll(",", ""));
    const isLimit = unit === "KiB" ? sizes.has(n * 1024) : times.has(n * (unit === "s" ? 1000 : 60_000));
    return isLimit ? [amount] : [];
  });
}

Deno.test("the search finds amounts that equal a limit", () => {
  const limits = `${LIMITS.timestampSkewSeconds} s, ${LIMITS.bodyBytes / 1024} KiB, 5 min`;
  assertEquals(repeatedLimits(limits), ["300 s", "64 KiB", "5 min"]);
  assertEquals(repeatedLimits("7 s, 1.300 s, 63 KiB, 300 seconds"), []);
});

Deno.test("texts of the product are built from LIMITS when they name the value of a limit", async () => {
  const root = new URL("../../../", import.meta.url);
  const found: string[] = [];
  const read = async (path: string) => {
    for (const text of stringsIn(path, await Deno.readTextFile(new URL(path, root)))) {
      for (const amount of repeatedLimits(text)) found.push(`${path}: ${amount} in ${text}`);
    }
  };
  const readFolder = async (folder: string): Promise<void> => {
    for await (const { name, isDirectory } of Deno.readDir(new URL(folder, root))) {
      const path = folder + name;
      if (isDirectory && path !== "shared/jsr") await readFolder(`${path}/`);
      else if (name.endsWith(".ts")) await read(path);
    }
  };
  for (const folder of ["shared/", "registry/", "proxy/", "cli/"]) await readFolder(folder);
  for (const path of ["deploy.ts", "deploy_store.ts", "svc.ts"]) await read(path);
  const allowed = OTHER_NUMBERS.map(([path, text]) => `${path}: ${repeatedLimits(text)[0]} in ${text}`);
  assertEquals([...new Set(found)].sort(), allowed.sort());
});

Deno.test("the limits cannot be changed", () => {
  assertThrows(() => Object.assign(CONNECTOR_LIMITS, { drainMs: 1 }), TypeError);
  assertThrows(() => Object.assign(CLIENT_LIMITS, { handshakeMs: 1 }), TypeError);
  assertThrows(() => Object.assign(LIMITS, { aitBytes: 1 }), TypeError);
  assertEquals(LIMITS.aitBytes, 8192);
});
