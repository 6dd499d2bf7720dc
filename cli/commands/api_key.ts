/** `svc api-key …`: a person's API keys. */
import { requireDisplayName } from "../account/config_store.ts";
import { command, PERSON_OPTIONS } from "../command_line/command.ts";
import { isConfirmed, YES } from "./confirm.ts";
import { EXIT } from "../errors.ts";
import { connectAsPerson } from "../account/registry_access.ts";
import { fields } from "../terminal/output.ts";
import { idCell } from "../terminal/tables.ts";
import { wholeId } from "../command_line/numbers.ts";

export const COMMANDS = [
  command({
    path: ["api-key", "create"],
    summary: "Create another API key; it is shown once and not saved",
    options: { ...PERSON_OPTIONS, name: { value: "key-name", summary: "Name of the key", required: true } },
    examples: { "svc api-key create --name ci": "Create a separate key for another machine" },
    async run(ctx, { options }) {
      requireDisplayName(options.name, "--name");
      const { registry, apiKey: own } = connectAsPerson(ctx, options);
      const { apiKey } = await registry.createApiKey(own, options.name);
      ctx.out.result({ apiKey }, [
        ctx.out.bold("The API key is shown only once and is not saved. Store it now."),
        ...fields([["name", apiKey.name], ["id", apiKey.id], ["token", apiKey.token]]),
      ]);
    },
  }),
  command({
    path: ["api-key", "list"],
    summary: "List your API keys, without their tokens",
    options: PERSON_OPTIONS,
    examples: { "svc api-key list": "Show their IDs, names and last use" },
    async run(ctx, { options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const apiKeys = await registry.apiKeys(apiKey);
      ctx.out.list({ apiKeys }, apiKeys, "No API keys.", [
        { head: "ID", of: ({ id }) => idCell(id) },
        { head: "NAME", of: ({ name }) => name },
        { head: "STATUS", rank: 1, of: ({ status }) => status },
        { head: "CREATED", rank: 3, of: ({ createdAt }) => ctx.out.time(createdAt) },
        { head: "LAST USED", rank: 2, of: ({ lastUsedAt }) => ctx.out.time(lastUsedAt) },
      ]);
    },
  }),
  command({
    path: ["api-key", "revoke"],
    summary: "Revoke one of your API keys; the others keep working",
    details: ["Asks before it revokes the only one, because a person without a key cannot make another one."],
    args: { "key-id": { summary: "Key ID, or its last 6 characters, from svc api-key list" } },
    options: { ...PERSON_OPTIONS, yes: YES },
    examples: { "svc api-key revoke 01KHYQ5H00AAAAAAAAAAAAAAAA": "The key stops working" },
    async run(ctx, { args, options }) {
      const { registry, apiKey } = connectAsPerson(ctx, options);
      const kind = { what: "a key ID", named: "API key", list: "svc api-key list" };
      const keys = await registry.apiKeys(apiKey), active = keys.filter(({ status }) => status === "active");
      const id = await wholeId(args["key-id"], () => Promise.resolve(keys), kind);
      if (active.length === 1 && active[0]?.id === id) {
        const question = "This is your only API key, and without one you cannot make another. Revoke it?";
        if (!await isConfirmed(ctx, options.yes, question)) return EXIT.failed;
      }
      await registry.revokeApiKey(apiKey, id);
      ctx.out.result({ id, status: "revoked" }, `The API key ${id} is revoked.`);
    },
  }),
];
