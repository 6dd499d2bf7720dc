/** `svc verify`: checks a token or a signed request step by step. */
import { parseIso, unixSeconds } from "../../shared/protocol/time.ts";
import { command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { connect } from "../account/registry_access.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import type { VerificationStep } from "../verify/evaluate.ts";
import { verifyRequest, verifyToken } from "../verify/collect_inputs.ts";

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
      const connection = connect(ctx, options);
      const setting = { ...connection, offline: options.offline, nowSeconds: unixSeconds(at), origin: options.origin };
      const verdict = token === undefined
        ? await verifyRequest(ctx, setting, options.request ?? "")
        : await verifyToken(ctx, setting, token);
      const { checks, claims, keysFrom, canonical } = verdict;
      const isValid = checks.every(({ result }) => result !== "failed");
      ctx.out.result(
        { valid: isValid, checks, claims, keys: keysFrom, ...(canonical === undefined ? {} : { canonical }) },
        [
          isValid ? ctx.out.green("All checks that are possible here passed.") : ctx.out.red("Some checks failed."),
          ...checks.map((check) => stepLine(ctx, check)),
          ...(canonical === undefined ? [] : ["", "Canonical string:", ...canonical.split("\n").map(numbered)]),
          "",
          ...(claims ? [`Token of ${claims.name}, ${claims.sub}, owned by ${claims.ownerDid}.`] : []),
          ctx.out.dim(
            `Keys of ${keysFrom.issuer}, from ${keysFrom.fetchedAt}${keysFrom.stale ? ` (${keysFrom.stale})` : ""}.`,
          ),
        ],
      );
      return isValid ? EXIT.done : EXIT.failed;
    },
  }),
];

const MARKS = { passed: "✓", failed: "✗", skipped: "–" } as const;

export function stepLine(ctx: Context, { name, result, detail }: VerificationStep): string {
  const text = `${MARKS[result]} ${name}: ${detail}`;
  return `  ${result === "passed" ? ctx.out.green(text) : result === "failed" ? ctx.out.red(text) : ctx.out.dim(text)}`;
}

function numbered(text: string, i: number): string {
  return `  ${i + 1} ${text}`;
}
