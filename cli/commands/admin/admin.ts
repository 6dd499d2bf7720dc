/** `svc admin …`: the commands for registry operators. */
import type { CreatedAgent } from "../../agents/registration.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { type IssuedServiceAnswer, SERVICE_SCOPES as SCOPES } from "../../../shared/protocol/api/services.ts";
import { command, PERSON_OPTIONS, REGISTRY_OPTIONS } from "../../command_line/command.ts";
import { connect, connectAsAdmin, connectAsPerson } from "../../account/registry_access.ts";
import type { RegistryClient } from "../../client/registry_client.ts";
import type { Context } from "../../context.ts";
import { wholeId } from "../../command_line/numbers.ts";
import { ensureConfigDir } from "../../files/config_dir.ts";
import { openPage, pageLines } from "../../files/open_page.ts";
import { PrivateFolder } from "../../files/private_files.ts";
import { fields } from "../../terminal/output.ts";
import { idCell, idEnd } from "../../terminal/tables.ts";
import { checkSavable } from "../../account/config_store.ts";
import { accountFields, FIRST_NAME_OPTIONS, firstAgent, firstNames, saveAccount } from "../../agents/new_account.ts";

const CODE_MIN = LIMITS.pageCodeMs / 60_000;
const SERVICE = { summary: "Service ID, or its last 6 characters, from svc admin service list" } as const;

export const COMMANDS = [
  command({
    path: ["admin", "open"],
    summary: "Open the console in a browser: people, agents, messages, refusals",
    details: [
      `The server must run with svc serve --console, or CONSOLE=on. The address works once, for ${CODE_MIN} min.`,
    ],
    options: {
      ...PERSON_OPTIONS,
      print: { summary: "Print the address and its QR code instead of opening a browser" },
    },
    examples: {
      "svc admin open": "See what passes and who is refused",
      "svc admin open --print": "Open the console on a phone",
    },
    async run(ctx, { options }) {
      const code = await connectAsAdmin(ctx, options).consoleCode();
      if (ctx.out.json) return ctx.out.result(code, []);
      if (!options.print) {
        await ensureConfigDir(ctx);
        return ctx.out.result(code, await openPage(ctx, new PrivateFolder(ctx, ctx.configDir), code));
      }
      const { renderUnicodeCompact } = await import("uqr");
      ctx.out.result(code, [...pageLines(code), ...renderUnicodeCompact(code.url, { border: 1 }).split("\n")]);
    },
  }),
  command({
    path: ["admin", "bootstrap"],
    summary: "Create the first admin and save its API key",
    details: [
      "Works once per registry. The API key is shown only once. Only a proxy in a separate process needs the service",
      "credential: --show-service prints it, also with --json; svc admin service rotate issues a new secret later.",
    ],
    options: {
      ...REGISTRY_OPTIONS,
      ...FIRST_NAME_OPTIONS,
      "bootstrap-secret": {
        value: "secret",
        summary: "Value of BOOTSTRAP_SECRET on the registry",
        env: "SVC_BOOTSTRAP_SECRET",
        secret: true,
        required: true,
      },
      "show-service": { summary: "Show the service credential, which is not saved" },
    },
    examples: {
      "svc admin bootstrap --registry-url https://registry.example --bootstrap-secret - <secret.txt":
        "Become the admin; keep the secret out of the process list",
    },
    async run(ctx, { options }) {
      const { registry, registryUrl } = connect(ctx, options);
      await checkSavable(ctx);
      const { displayName, agent: agentName } = await firstNames(ctx, options);
      ctx.out.doing(`Creating the first admin at ${registryUrl}`);
      const answer = await registry.bootstrap(options["bootstrap-secret"], displayName);
      const { human, apiKey, internalService } = answer;
      const { secret, ...service } = internalService;
      const isShown = options["show-service"];
      const owner = { registry, apiKey: apiKey.token };
      let agent: CreatedAgent | null = null;
      try {
        await saveAccount(ctx, owner, human);
        if (agentName !== undefined) agent = await firstAgent(ctx, owner, agentName);
      } finally {
        // Printed even after a failure, because the account exists by then, and its key is never shown again.
        const made = agent === null ? {} : { agent: { ...agent.identity, path: agent.path } };
        ctx.out.result({ registryUrl, human, apiKey, internalService: isShown ? internalService : service, ...made }, [
          ctx.out.bold(`${human.displayName} is the admin of ${registryUrl}.`),
          ...accountFields(ctx, { human, apiKey }, agent && agent.identity),
          "",
          ...isShown
            ? [
              "For a proxy in a separate process (not needed in the all-in-one server):",
              ...fields([["REGISTRY_INTERNAL_SERVICE_ID", service.id], ["REGISTRY_INTERNAL_SERVICE_SECRET", secret]]),
              "",
              "Both secrets are shown only once. Store the service secret now; it is not saved.",
            ]
            : ["The API key is shown only once."],
        ]);
      }
      if (agentName === undefined) ctx.out.next(["agent", "create", "my-agent"]);
      else ctx.out.next(["connector", "start", agentName]);
      ctx.out.next(["invite", "create"], { when: "for another person" });
      if (!isShown) {
        ctx.out.next(["admin", "service", "rotate", service.id], { when: "for a proxy in a separate process" });
      }
    },
  }),
  command({
    path: ["admin", "service", "create"],
    summary: "Create a credential for an internal service",
    args: { name: { summary: "Service name: 2 to 64 of a-z, 0-9, _ and -" } },
    options: {
      ...PERSON_OPTIONS,
      scope: { value: "scope", summary: `One of ${SCOPES.join(", ")} (default: all)`, repeat: true, complete: SCOPES },
    },
    examples: { "svc admin service create proxy-eu": "Create a credential for a second proxy" },
    async run(ctx, { args, options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const scopes = options.scope.length > 0 ? options.scope : SCOPES;
      const issued = await registry.createService(apiKey, args.name, scopes);
      showIssued(ctx, issued, `The service ${issued.internalService.name} can now call the registry.`);
    },
  }),
  command({
    path: ["admin", "service", "list"],
    summary: "List the internal services",
    options: PERSON_OPTIONS,
    examples: { "svc admin service list": "Show their IDs, scopes and states" },
    async run(ctx, { options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const internalServices = await registry.services(apiKey);
      ctx.out.list({ internalServices }, internalServices, "No services.", [
        { head: "ID", of: ({ id }) => idCell(id) },
        { head: "NAME", of: ({ name }) => name },
        { head: "STATUS", rank: 1, of: ({ status }) => status },
        { head: "SCOPES", rank: 3, of: ({ scopes }) => scopes.join(" ") },
        { head: "LAST USED", rank: 2, of: ({ lastUsedAt }) => ctx.out.time(lastUsedAt) },
      ]);
    },
  }),
  command({
    path: ["admin", "service", "rotate"],
    summary: "Issue a new secret for a service; the old one stays valid for one hour",
    args: { id: SERVICE },
    options: PERSON_OPTIONS,
    examples: {
      "svc admin service rotate 01KHYQ5H00AAAAAAAAAAAAAAAA": "Replace the secret, then restart the service with it",
    },
    async run(ctx, { args, options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const issued = await registry.rotateService(apiKey, await serviceId(registry, apiKey, args.id));
      const { name } = issued.internalService;
      // Not only of the old one: after a rotation whose answer was lost, the running service has an older secret.
      const older = "The one before it works for another hour, and older ones no longer.";
      showIssued(ctx, issued, `The service ${name} has a new secret. ${older}`);
    },
  }),
  command({
    path: ["admin", "service", "revoke"],
    summary: "Revoke an internal service",
    args: { id: SERVICE },
    options: PERSON_OPTIONS,
    examples: { "svc admin service revoke 01KHYQ5H00AAAAAAAAAAAAAAAA": "Its credential stops working" },
    async run(ctx, { args, options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const id = await serviceId(registry, apiKey, args.id);
      await registry.revokeService(apiKey, id);
      ctx.out.result({ id, status: "revoked" }, `The service ${id} is revoked.`);
    },
  }),
  command({
    path: ["admin", "keys", "rotate"],
    summary: "Start signing with a new key; tokens signed with the old one stay valid",
    options: PERSON_OPTIONS,
    examples: { "svc admin keys rotate": "Rotate periodically; for a leak see docs/security.md" },
    async run(ctx, { options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const { kid, retiredKid, signsFrom } = await registry.rotateKeys(apiKey);
      ctx.out.result({ kid, retiredKid, signsFrom }, [
        "The registry has a new signing key.",
        ...fields([["new key", kid], ["signs from", signsFrom], ["old key, verifies only", retiredKid]]),
      ]);
    },
  }),
];

/**
 * The ID of the service that an argument names by the whole ID or by its end. Any other text is left to the registry.
 */
async function serviceId(registry: RegistryClient, apiKey: string, text: string): Promise<string> {
  const kind = { what: "a service ID", named: "service", list: "svc admin service list" };
  return await wholeId(text, () => registry.services(apiKey), { ...kind, isWhole: (text) => idEnd(text) === null });
}

function showIssued(ctx: Context, { internalService }: IssuedServiceAnswer, headline: string): void {
  const { id, secret, scopes } = internalService;
  ctx.out.result({ internalService }, [
    ctx.out.bold(headline),
    ...fields([
      ["REGISTRY_INTERNAL_SERVICE_ID", id],
      ["REGISTRY_INTERNAL_SERVICE_SECRET", secret],
      ["scopes", scopes.join(" ")],
    ]),
    "",
    "The secret is shown only once. Store it now.",
  ]);
}
