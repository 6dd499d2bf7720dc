/** Commands on a person's API keys. */
import { parseDisplayName } from "../../shared/protocol/names.ts";
import { command, PERSON_OPTIONS } from "../command_line/command.ts";
import { connectAsPerson } from "../account/registry_access.ts";
import { CliError } from "../errors.ts";
import { fields, table } from "../terminal/output.ts";

export const API_KEY_COMMANDS = [
  command({
    path: ["api-key", "create"],
    summary: "Make a further API key; it is shown once and saved nowhere",
    args: {},
    options: {
      ...PERSON_OPTIONS,
      name: { value: "key-name", summary: "What you will know it by", required: true },
    },
    examples: [{ run: "svc api-key create --name ci", purpose: "A key of its own for another machine" }],
    async run(ctx, { options }) {
      if (parseDisplayName(options.name) === null) {
        throw new CliError("CLI_USAGE", "--name must be 1 to 64 characters of text");
      }
      const { registry, apiKey: own } = await connectAsPerson(ctx, options);
      const { apiKey } = await registry.createApiKey(own, options.name);
      ctx.out.result({ apiKey }, [
        ctx.out.bold("The API key is shown this once and not saved. Keep it."),
        ...fields([["name", apiKey.name], ["id", apiKey.id], ["token", apiKey.token]]),
      ]);
    },
  }),
  command({
    path: ["api-key", "list"],
    summary: "List your API keys, without their tokens",
    args: {},
    options: PERSON_OPTIONS,
    examples: [{ run: "svc api-key list", purpose: "Their ids, names and last use" }],
    async run(ctx, { options }) {
      const { registry, apiKey } = await connectAsPerson(ctx, options);
      const { apiKeys } = await registry.apiKeys(apiKey);
      const rows = apiKeys.map((
        { id, name, status, createdAt, lastUsedAt },
      ) => [id, name, status, createdAt, lastUsedAt]);
      ctx.out.result({ apiKeys }, table(["ID", "NAME", "STATUS", "CREATED", "LAST USED"], rows));
    },
  }),
  command({
    path: ["api-key", "revoke"],
    summary: "Revoke one of your API keys; the others keep working",
    args: { "key-id": { summary: "Its id, as svc api-key list shows it" } },
    options: PERSON_OPTIONS,
    examples: [{ run: "svc api-key revoke 01KHYQ5H00AAAAAAAAAAAAAAAA", purpose: "It works no more" }],
    async run(ctx, { args, options }) {
      const id = args["key-id"];
      const { isUlid } = await import("../../shared/protocol/ids.ts");
      if (!isUlid(id)) throw new CliError("CLI_USAGE", `"${id}" is no key id: 26 upper-case characters`);
      const { registry, apiKey } = await connectAsPerson(ctx, options);
      await registry.revokeApiKey(apiKey, id);
      ctx.out.result({ id, status: "revoked" }, `The API key ${id} is revoked.`);
    },
  }),
];
