/** `svc receipt verify`: checks a signed receipt step by step. */
import { toIso } from "../../shared/protocol/time.ts";
import { command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { connect } from "../account/registry_access.ts";
import { EXIT } from "../errors.ts";
import { stepLine } from "./verify.ts";
import { verifyReceiptFile } from "../verify/verify_receipt.ts";

export const COMMANDS = [
  command({
    path: ["receipt", "verify"],
    summary: "Check a signed receipt step by step",
    details: [
      "A receipt says that an agent has processed a message, or that it gave it up. Save the output of",
      "svc sent <requestId> --json, which has the receipts that a peer signed. Needs no agent, connector or account.",
      "Exits with 0 if no check failed (some may be skipped), and with 1 if one failed.",
    ],
    args: { file: { summary: "File with the receipt; - reads standard input", complete: "files" } },
    options: {
      ...REGISTRY_OPTIONS,
      payload: { value: "file", summary: "The payload that was sent, to compare it", complete: "files" },
      "key-document": {
        value: "file",
        summary:
          "Saved key document of the registry; makes no request. Retired keys are published as long as an AIT may live",
        complete: "files",
      },
    },
    examples: {
      "svc receipt verify receipt.json": "Show who signed the receipt, for which message and when",
      "svc receipt verify receipt.json --payload payload.json --key-document keys.json":
        "Check it with the payload, without a network",
    },
    async run(ctx, { args, options }) {
      const report = await verifyReceiptFile(ctx, () => connect(ctx, options), {
        path: args.file,
        payloadPath: options.payload,
        keysPath: options["key-document"],
      });
      const { checks, receipt, keysFrom } = report;
      const isValid = checks.every(({ result }) => result !== "failed");
      ctx.out.result({ valid: isValid, checks, receipt, keys: keysFrom }, [
        isValid ? ctx.out.green("All checks that are possible here passed.") : ctx.out.red("Some checks failed."),
        ...checks.map((check) => stepLine(ctx, check)),
        ...(receipt === null ? [] : [
          "",
          `status      ${receipt.status}`,
          `recipient   ${receipt.iss}`,
          `sender      ${receipt.sub}`,
          `request ID  ${receipt.requestId}`,
          `time        ${toIso(receipt.iat * 1000)}`,
        ]),
        "",
        ctx.out.dim(
          `Keys of ${keysFrom.issuer}, from ${keysFrom.fetchedAt}${keysFrom.stale ? ` (${keysFrom.stale})` : ""}.`,
        ),
      ]);
      return isValid ? EXIT.done : EXIT.failed;
    },
  }),
];
