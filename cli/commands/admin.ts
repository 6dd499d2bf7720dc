/** Commands of whoever runs the registry. */
import type { InternalService, IssuedServiceAnswer } from "../../shared/protocol/api/services.ts";
import { command, PERSON_OPTIONS, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { connect, connectAsPerson } from "../account/registry_access.ts";
import type { Context } from "../context.ts";
import { fields, table } from "../terminal/output.ts";
import { saveAccount } from "../account/saved_account.ts";

const SCOPES = ["identity.read", "auth.validate", "crl.read"] as const;
const SERVICE = { summary: "Its id, 26 upper-case characters" } as const;

export const ADMIN_COMMANDS = [
  command({
    path: ["admin", "bootstrap"],
    summary: "Make the first admin, with an API key that is saved here",
    details: [
      "Works once per registry. The API key is shown this once. Only a proxy in another process needs the service",
      "credential: --show-service shows it, with --json too; else svc admin service rotate issues a new secret later.",
    ],
    args: {},
    options: {
      ...REGISTRY_OPTIONS,
      "bootstrap-secret": {
        value: "secret",
        summary: "The secret of the registry's configuration",
        env: "SVC_BOOTSTRAP_SECRET",
        secret: true,
        required: true,
      },
      "show-service": { summary: "Show the service credential, which is saved nowhere" },
    },
    examples: [
      {
        run: "svc admin bootstrap --registry-url https://registry.example --bootstrap-secret - <secret.txt",
        purpose: "Become the admin; the secret stays out of the process list",
      },
    ],
    async run(ctx, { options }) {
      const { registry, registryUrl, config } = await connect(ctx, options);
      ctx.out.doing(`Making the first admin at ${registryUrl}`);
      const { human, apiKey, internalService } = await registry.bootstrap(
        options["bootstrap-secret"],
        config.humanName,
      );
      const { secret, ...service } = internalService;
      const isShown = options["show-service"];
      ctx.out.result({ registryUrl, human, apiKey, internalService: isShown ? internalService : service }, [
        ctx.out.bold(`${human.displayName} is the admin of ${registryUrl}.`),
        ...fields([["human", human.did], ["API key", apiKey.token]]),
        "",
        ...isShown
          ? [
            "For a proxy in another process:",
            ...fields([["REGISTRY_INTERNAL_SERVICE_ID", service.id], ["REGISTRY_INTERNAL_SERVICE_SECRET", secret]]),
            "",
            "Both secrets are shown this once. Keep them.",
          ]
          : ["The API key is shown this once. Keep it."],
      ]);
      await saveAccount(ctx, { registry, apiKey: apiKey.token, humanName: human.displayName });
      ctx.out.next(["agent", "create", "my-agent"]);
      ctx.out.next(["invite", "create"], { when: "for another person" });
      if (!isShown) {
        ctx.out.next(["admin", "service", "rotate", service.id], { when: "for a proxy in another process" });
      }
    },
  }),
  command({
    path: ["admin", "service", "create"],
    summary: "Make a credential for a service that asks the registry",
    args: { name: { summary: "2 to 64 of a-z, 0-9, _ and -" } },
    options: {
      ...PERSON_OPTIONS,
      scope: {
        value: "scope",
        summary: `One of ${SCOPES.join(", ")}; all of them unless given`,
        repeat: true,
        complete: SCOPES,
      },
    },
    examples: [{ run: "svc admin service create proxy-eu", purpose: "A credential for a second proxy" }],
    async run(ctx, { args, options }) {
      const { registry, apiKey } = await connectAsPerson(ctx, options);
      const scopes = options.scope.length > 0 ? options.scope : SCOPES;
      const issued = await registry.createService(apiKey, args.name, scopes);
      showIssued(ctx, issued, `The service ${issued.internalService.name} may ask the registry.`);
    },
  }),
  command({
    path: ["admin", "service", "list"],
    summary: "List the services that may ask the registry",
    args: {},
    options: PERSON_OPTIONS,
    examples: [{ run: "svc admin service list", purpose: "Their ids, scopes and states" }],
    async run(ctx, { options }) {
      const { registry, apiKey } = await connectAsPerson(ctx, options);
      const { internalServices } = await registry.services(apiKey);
      const rows = internalServices.map((
        s: InternalService,
      ) => [s.id, s.name, s.status, s.scopes.join(" "), s.lastUsedAt]);
      ctx.out.result({ internalServices }, table(["ID", "NAME", "STATUS", "SCOPES", "LAST USED"], rows));
    },
  }),
  command({
    path: ["admin", "service", "rotate"],
    summary: "Give a service a new secret; the old one works for another hour",
    args: { id: SERVICE },
    options: PERSON_OPTIONS,
    examples: [{
      run: "svc admin service rotate 01KHYQ5H00AAAAAAAAAAAAAAAA",
      purpose: "Then restart that service with it",
    }],
    async run(ctx, { args, options }) {
      const { registry, apiKey } = await connectAsPerson(ctx, options);
      const issued = await registry.rotateService(apiKey, args.id);
      showIssued(
        ctx,
        issued,
        `The service ${issued.internalService.name} has a new secret; the old one ends in an hour.`,
      );
    },
  }),
  command({
    path: ["admin", "service", "revoke"],
    summary: "Refuse a service from now on",
    args: { id: SERVICE },
    options: PERSON_OPTIONS,
    examples: [{ run: "svc admin service revoke 01KHYQ5H00AAAAAAAAAAAAAAAA", purpose: "Its credential works no more" }],
    async run(ctx, { args, options }) {
      const { registry, apiKey } = await connectAsPerson(ctx, options);
      await registry.revokeService(apiKey, args.id);
      ctx.out.result({ id: args.id, status: "revoked" }, `The service ${args.id} is revoked.`);
    },
  }),
  command({
    path: ["admin", "keys", "rotate"],
    summary: "Sign with a new key; tokens signed with the old one stay valid",
    args: {},
    options: PERSON_OPTIONS,
    examples: [{ run: "svc admin keys rotate", purpose: "After a suspicion, or once in a while" }],
    async run(ctx, { options }) {
      const { registry, apiKey } = await connectAsPerson(ctx, options);
      const { kid, retiredKid, signsFrom } = await registry.rotateKeys(apiKey);
      ctx.out.result({ kid, retiredKid, signsFrom }, [
        "The registry has a new signing key.",
        ...fields([["new key", kid], ["signs from", signsFrom], ["then only verifies", retiredKid]]),
      ]);
    },
  }),
];

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
    "The secret is shown this once. Keep it.",
  ]);
}
