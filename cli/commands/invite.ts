/** Commands on invites: how further people get an account. */
import { parseDisplayName } from "../../shared/protocol/names.ts";
import { parseIso } from "../../shared/protocol/time.ts";
import { command, PERSON_OPTIONS, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { connect, connectAsPerson } from "../account/registry_access.ts";
import { CliError } from "../errors.ts";
import { fields } from "../terminal/output.ts";
import { saveAccount } from "../account/saved_account.ts";

export const INVITE_COMMANDS = [
  command({
    path: ["invite", "create"],
    summary: "Make a single-use invite code (admins only)",
    args: {},
    options: {
      ...PERSON_OPTIONS,
      "expires-at": { value: "timestamp", summary: "When it ends, as in 2026-12-31T12:00:00Z; never unless given" },
    },
    examples: [{
      run: "svc invite create --expires-at 2026-12-31T12:00:00Z",
      purpose: "A code for one person, until then",
    }],
    async run(ctx, { options }) {
      const expiresAt = options["expires-at"];
      if (expiresAt !== undefined && parseIso(expiresAt) === null) {
        throw new CliError(
          "CLI_USAGE",
          `--expires-at is no RFC 3339 time such as 2026-12-31T12:00:00Z: "${expiresAt}"`,
        );
      }
      const { registry, registryUrl, apiKey } = await connectAsPerson(ctx, options);
      const { invite } = await registry.createInvite(apiKey, expiresAt ?? null);
      ctx.out.result({ invite, registryUrl }, [
        ctx.out.bold("The invite works once and is shown this once."),
        ...fields([["code", invite.code], ["expires", invite.expiresAt ?? "never"]]),
      ]);
      const redeem = ["invite", "redeem", invite.code, "--registry-url", registryUrl];
      ctx.out.next(redeem, { when: "on the other person's machine", isHere: false });
    },
  }),
  command({
    path: ["invite", "redeem"],
    summary: "Turn an invite code into an account, with an API key that is saved here",
    args: {
      code: { summary: "The code, svc_inv_…, or set SVC_INVITE_CODE", secret: { env: "SVC_INVITE_CODE" } },
    },
    options: {
      ...REGISTRY_OPTIONS,
      "display-name": { value: "name", summary: "The name that people see; humanName unless given" },
    },
    examples: [
      {
        run: "svc invite redeem svc_inv_… --display-name Bob --registry-url https://registry.example",
        purpose: "Join as Bob",
      },
    ],
    async run(ctx, { args, options }) {
      const given = options["display-name"];
      if (given !== undefined && parseDisplayName(given) === null) {
        throw new CliError("CLI_USAGE", "--display-name must be 1 to 64 characters of text");
      }
      const { registry, registryUrl, config } = await connect(ctx, options);
      ctx.out.doing(`Redeeming the invite at ${registryUrl}`);
      const { human, apiKey, proxyUrl } = await registry.redeemInvite(args.code, given ?? config.humanName);
      ctx.out.result({ registryUrl, proxyUrl, human, apiKey }, [
        ctx.out.bold(`${human.displayName} has an account at ${registryUrl}.`),
        ...fields([["human", human.did], ["API key", apiKey.token]]),
        "",
        "The API key is shown this once.",
      ]);
      await saveAccount(ctx, { registry, apiKey: apiKey.token, humanName: human.displayName, proxyUrl });
      ctx.out.next(["agent", "create", "my-agent"]);
    },
  }),
];
