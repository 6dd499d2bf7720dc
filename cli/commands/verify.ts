/** `svc verify` and `svc receipt verify`: check a token, a signed request or a receipt step by step. */
import { parseIso, toIso, unixSeconds } from "../../shared/protocol/time.ts";
import { command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { connect } from "../account/registry_access.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import { gather, identityTokenIn, originsOf, readGiven, readRequest } from "../verify/collect_inputs.ts";
import { evaluateRequest, evaluateToken, type VerificationStep } from "../verify/evaluate.ts";
import type { TrustedKeys } from "../verify/trusted_keys.ts";
import { evaluateReceipt, readKeys, readReceipt } from "../verify/verify_receipt.ts";

const PAYLOAD_BYTES_MAX = 1024 * 1024;

export const COMMANDS = [
  command({
    path: ["verify"],
    summary: "Check an identity token or a signed request step by step",
    details: [
      "A request file holds the HTTP message (request line, headers, empty line, body), or JSON:",
      '{"method":"POST","url":"https://…","headers":{…},"body":"text"}. The canonical string is also shown.',
      "Exits with 0 if no check failed (some may be skipped), and with 1 if one failed.",
    ],
    args: { token: { summary: "Identity token (AIT)", optional: true, secret: true } },
    options: {
      ...REGISTRY_OPTIONS,
      request: { value: "file", summary: "Request to check; - reads it from standard input", complete: "files" },
      origin: { value: "url", summary: "Public origin that the request must be signed for" },
      at: { value: "timestamp", summary: "Check as of this time, for example 2026-12-31T12:00:00Z (default: now)" },
      offline: { summary: "Use only locally saved keys; make no network request" },
    },
    examples: {
      "svc verify eyJhbGciOi…": "Show the token's subject and whether it is valid",
      "svc verify --request refused.http --at 2026-02-21T00:01:00Z": "Show why a request was rejected at that time",
    },
    async run(ctx, { args, options }) {
      const { token } = args;
      if ((token === undefined) === (options.request === undefined)) {
        throw new CliError("CLI_USAGE", "Give either a token or --request <file>");
      }
      const at = options.at === undefined ? ctx.clock.now() : parseIso(options.at);
      if (at === null) throw new CliError("CLI_USAGE", `--at is not an RFC 3339 time: "${options.at}"`);
      const { registry } = connect(ctx, options);
      const given = token === undefined ? await readRequest(ctx, options.request ?? "") : identityTokenIn(token);
      const known = await gather(ctx, registry, { offline: options.offline, nowSeconds: unixSeconds(at) });
      const result = typeof given === "string"
        ? { ...await evaluateToken(given, known), canonical: undefined }
        : await evaluateRequest(given, known, originsOf(given, known.trusted, options.origin));
      const { checks, claims, canonical } = result;
      const lines = canonical?.split("\n").map((line, i) => `  ${i + 1} ${line}`);
      return showVerdict(ctx, checks, known.trusted, { claims, canonical }, [
        ...(lines === undefined ? [] : ["", "Canonical string:", ...lines]),
        "",
        ...(claims ? [`Token of ${claims.name}, ${claims.sub}, owned by ${claims.ownerDid}.`] : []),
      ]);
    },
  }),
  command({
    path: ["receipt", "verify"],
    summary: "Check a signed receipt step by step",
    details: [
      "A receipt says that an agent has processed a message or has given up on it. Save the output of",
      "svc sent <requestId> --json, which has the receipts that a peer signed. With --registry-url it needs no",
      "agent, connector or account. Exits with 0 if no check failed (some may be skipped), and with 1 if one failed.",
    ],
    args: { file: { summary: "File with the receipt; - reads standard input", complete: "files" } },
    options: {
      ...REGISTRY_OPTIONS,
      payload: { value: "file", summary: "The text or payload that was sent, to compare it", complete: "files" },
      // Not named `--keys`, which is a switch of `svc connector start`. Options are read before the command is known, so a
      // name must take a value in all commands or in none.
      "key-document": {
        value: "file",
        summary: "Saved key document of the registry, used in place of a request",
        complete: "files",
      },
    },
    examples: {
      "svc receipt verify receipt.json": "Show who signed the receipt, for which message and when",
      "svc receipt verify receipt.json --payload payload.json --key-document keys.json":
        "Check it with the payload, without a network",
    },
    async run(ctx, { args, options }) {
      const { payload: path, "key-document": keysPath } = options;
      const row = await readReceipt(ctx, args.file);
      const payload = path === undefined ? null : await readGiven(ctx, path, PAYLOAD_BYTES_MAX);
      const known = keysPath === undefined
        ? await gather(ctx, connect(ctx, options).registry, { nowSeconds: unixSeconds(ctx.clock.now()) })
        : await readKeys(ctx, keysPath, row);
      const { checks, receipt } = await evaluateReceipt(row, payload, known);
      return showVerdict(ctx, checks, known.trusted, { receipt }, [
        ...(receipt === null ? [] : [
          "",
          `status      ${receipt.status}`,
          `recipient   ${receipt.iss}`,
          `sender      ${receipt.sub}`,
          `request ID  ${receipt.requestId}`,
          `time        ${toIso(receipt.iat * 1000)}`,
        ]),
        "",
      ]);
    },
  }),
];

/** Prints the checks, what more is known, and whose keys were used. Returns the exit code. */
function showVerdict(
  { out }: Context,
  checks: readonly VerificationStep[],
  { issuer, fetchedAt, stale }: TrustedKeys,
  members: Record<string, unknown>,
  facts: readonly string[],
): number {
  const isValid = checks.every(({ result }) => result !== "failed");
  const paint = { passed: out.green, failed: out.red, skipped: out.dim };
  out.result({ valid: isValid, checks, ...members, keys: { issuer, fetchedAt, stale } }, [
    isValid ? out.green("All checks that are possible here passed.") : out.red("Some checks failed."),
    ...checks.map(({ name, result, detail }) => `  ${paint[result](`${MARKS[result]} ${name}: ${detail}`)}`),
    ...facts,
    out.dim(`Keys of ${issuer}, from ${fetchedAt}${stale ? ` (${stale})` : ""}.`),
  ]);
  return isValid ? EXIT.done : EXIT.failed;
}

const MARKS = { passed: "✓", failed: "✗", skipped: "–" } as const;
