/** `svc invite …`: creates, lists, revokes and redeems invites. */
import { checkSavable, requireDisplayName } from "../account/config_store.ts";
import { parseIso } from "../../shared/protocol/time.ts";
import { command, PERSON_OPTIONS, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { isLoopback, parseServiceUrl } from "../../shared/client/service_url.ts";
import { joinLink, joinWords } from "../account/join_link.ts";
import { connect, connectAsPerson, type ConnectionOptions } from "../account/registry_access.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { fields } from "../terminal/output.ts";
import { idCell } from "../terminal/tables.ts";
import { dayAndTime } from "../terminal/times.ts";
import { accountFields, saveAccount } from "../agents/new_account.ts";
import { wholeId } from "../command_line/numbers.ts";
import { chosenAgent } from "../agents/agent_store.ts";
import { access } from "../connector/attach.ts";
import { redeem } from "../account/redemption.ts";
import { createPairInvite, INVITE_HOURS } from "../account/pair_invite.ts";

export const COMMANDS = [
  command({
    path: ["invite", "create"],
    summary: "Create a single-use invite and print its join link (admins only)",
    details: [
      "With --pair the link also pairs the new agent with one of yours. It pairs for 15 min, and makes an account for",
      `${INVITE_HOURS} h unless --expires-at says otherwise.`,
      "Send such a link like a password: the person who uses it gets the account and the pair.",
    ],
    args: {
      agent: { summary: "With --pair: the agent on this machine to pair with", optional: true, complete: "agents" },
    },
    options: {
      ...PERSON_OPTIONS,
      "expires-at": {
        value: "timestamp",
        summary: `Expiry time, for example 2026-12-31T12:00:00Z (default: no expiry, with --pair ${INVITE_HOURS} h)`,
      },
      pair: { summary: "Make a link that also pairs with an agent of yours" },
    },
    examples: {
      "svc invite create --expires-at 2026-12-31T12:00:00Z": "Create an invite for one person that expires then",
      "svc invite create --pair alpha": "Create an invite that also pairs with alpha",
    },
    async run(ctx, { args: { agent }, options }) {
      if (agent !== undefined && !options.pair) throw new CliError("CLI_USAGE", "An agent is for --pair");
      const expiresAt = options["expires-at"];
      if (expiresAt !== undefined && parseIso(expiresAt) === null) {
        const problem = `--expires-at is not an RFC 3339 time such as 2026-12-31T12:00:00Z: "${expiresAt}"`;
        throw new CliError("CLI_USAGE", problem);
      }
      if (options.pair) return await createWithPair(ctx, agent, { ...options, expiresAt: expiresAt ?? null });
      const { registry, registryUrl, apiKey } = connectAsPerson(ctx, options);
      // The address is read before the invite is made, because a code whose link cannot be made would be lost.
      const named = parseServiceUrl((await registry.metadata()).registryUrl) ?? registryUrl;
      const { invite } = await registry.createInvite(apiKey, expiresAt ?? null);
      const link = { registryUrl: named, code: invite.code, ticketFields: null };
      ctx.out.result({ invite, registryUrl, joinLink: joinLink(link) }, [
        ctx.out.bold("The invite works once and is shown only once."),
        ...fields([["code", invite.code], ["expires", ctx.out.shown(ctx.out.time(invite.expiresAt)) ?? "never"]]),
      ]);
      showJoin(ctx, named, joinWords(link));
    },
  }),
  command({
    path: ["invite", "list"],
    summary: "List the invites, newest first, without their codes (admins only)",
    options: PERSON_OPTIONS,
    examples: { "svc invite list": "Show which invites are unused, redeemed or expired" },
    async run(ctx, { options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const invites = await registry.invites(apiKey);
      ctx.out.list({ invites }, invites, "No invites.", [
        { head: "ID", of: ({ id }) => idCell(id) },
        { head: "STATUS", of: ({ status }) => status },
        { head: "CREATED", rank: 2, of: ({ createdAt }) => ctx.out.time(createdAt) },
        { head: "EXPIRES", rank: 1, of: ({ expiresAt }) => ctx.out.time(expiresAt ?? "never") },
        { head: "REDEEMED", rank: 3, of: ({ redeemedAt }) => ctx.out.time(redeemedAt) },
        { head: "BY", rank: 2, of: ({ redeemedBy }) => idCell(redeemedBy) },
      ]);
    },
  }),
  command({
    path: ["invite", "revoke"],
    summary: "Delete an unused invite, whose code stops working (admins only)",
    details: [
      "A redeemed one is refused, because its account exists. To stop that, use svc admin people suspend <id>.",
    ],
    args: { id: { summary: "Invite ID, or its last 6 characters, from svc invite list" } },
    options: PERSON_OPTIONS,
    examples: { "svc invite revoke 01KHYQ5H00AAAAAAAAAAAAAAAA": "The code can no longer be redeemed" },
    async run(ctx, { args: { id: given }, options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const kind = { what: "an invite ID", named: "invite", list: "svc invite list" };
      const id = await wholeId(given, () => registry.invites(apiKey), kind);
      await registry.deleteInvite(apiKey, id);
      ctx.out.result({ id, status: "revoked" }, `The invite ${id} is revoked.`);
    },
  }),
  command({
    path: ["invite", "redeem"],
    summary: "Redeem an invite code: create an account and save its API key",
    args: { code: { summary: "Invite code svc_inv_…, or set SVC_INVITE_CODE", secret: true, env: "SVC_INVITE_CODE" } },
    options: {
      ...REGISTRY_OPTIONS,
      "display-name": { value: "name", summary: "Display name (default: humanName of the configuration)" },
    },
    examples: {
      "svc invite redeem svc_inv_… --display-name Bob --registry-url https://registry.example": "Join as Bob",
    },
    async run(ctx, { args, options }) {
      const given = options["display-name"];
      if (given !== undefined) requireDisplayName(given, "--display-name");
      const { registry, registryUrl, config } = connect(ctx, options);
      await checkSavable(ctx);
      ctx.out.doing(`Redeeming the invite at ${registryUrl}`);
      const { human, apiKey, proxyUrl } = await redeem(ctx, registry, args.code, given ?? config.humanName);
      ctx.out.result({ registryUrl, proxyUrl, human, apiKey }, [
        ctx.out.bold(`${human.displayName} has an account at ${registryUrl}.`),
        ...accountFields(ctx, { human, apiKey }, null),
        "",
        "The API key is shown only once.",
      ]);
      await saveAccount(ctx, { registry, apiKey: apiKey.token }, human, proxyUrl);
      ctx.out.next(["agent", "create", "my-agent"]);
    },
  }),
];

async function createWithPair(
  ctx: Context,
  agentName: string | undefined,
  { expiresAt, ...options }: ConnectionOptions & { expiresAt: string | null },
): Promise<void> {
  const folder = await chosenAgent(ctx, agentName);
  await using connector = await access(ctx, folder);
  const { invite, registryUrl, link, words, pairing } = await createPairInvite(ctx, connector, options, expiresAt);
  const until = ctx.out.shown({ short: dayAndTime(pairing.expiresAt), whole: pairing.expiresAt });
  ctx.out.result({ invite, registryUrl, joinLink: link, pairing }, [
    ctx.out.bold("The link works once and is shown only once. It is a secret."),
    ...fields([
      ["pairs with", `${pairing.agent}, until ${until}`],
      ["expires", ctx.out.shown(ctx.out.time(invite.expiresAt)) ?? "never"],
    ]),
  ]);
  const start = ["connector", "start", pairing.agent];
  showJoin(ctx, registryUrl, words, connector.isHost ? start : null);
}

/** Says what the other person runs. @param start the command that shows when that person pairs */
function showJoin({ out }: Context, registryUrl: string, words: string[], start: string[] | null = null): void {
  if (isLoopback(registryUrl)) out.note(`The registry's address ${registryUrl} can be reached from this machine only.`);
  if (start !== null) out.next(start, { when: "to see the other person pair" });
  out.next(words, { when: "on the other person's machine", isHere: false });
}
