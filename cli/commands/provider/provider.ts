/** `svc provider …`: status, checks and a test message. provider_setup.ts changes the runtime's settings. */
import { command } from "../../command_line/command.ts";
import type { Context } from "../../context.ts";
import { CliError, describeFor, EXIT } from "../../errors.ts";
import { errorJson, fields } from "../../terminal/output.ts";
import { CONNECTOR_URL, FOR, placeOf, providerOf, STATE_DIR, WHICH_AGENT } from "./provider_world.ts";
import { BLOCKING_CHECKS, type DoctorCheck, runChecks, runtimeOf } from "./checks.ts";
import { connectorOf } from "../connector/connector.ts";
import { statusOf } from "../../connector/status.ts";
import { idCell } from "../../terminal/tables.ts";
import { PLATFORMS } from "../../platforms/table.ts";
import { presentPeers, readPeers } from "../../connector/peers/peers.ts";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import { ApiError, LocalDown } from "../../../shared/client/errors.ts";
import { sleep, timeLeft } from "../../../shared/clock.ts";
import { ConversationId, HookAnswer } from "../../../shared/protocol/api/relay.ts";
import { call, get, type LocalCalls, post } from "../../../shared/client/local_client.ts";
import { CheckedReceipts } from "../../../shared/client/local_shapes.ts";

const WHERE = { for: FOR, "agent-name": WHICH_AGENT, "connector-base-url": CONNECTOR_URL } as const;
const PEER = { value: "alias", summary: "Alias or DID of a peer", complete: "peers" } as const;

export const COMMANDS = [
  command({
    path: ["provider", "status"],
    summary: "Show an agent's runtime: platform, URL and whether it answers",
    details: ["A running connector is asked first. Exits with 1 if the runtime does not answer."],
    options: { for: FOR, "agent-name": WHICH_AGENT },
    examples: { "svc provider status": "Show the runtime URL and whether it answers" },
    async run(ctx, { options }) {
      const { folder } = await placeOf(ctx, options["agent-name"]);
      const provider = await providerOf(ctx, options, folder);
      const { file, machine, stateDir, client } = provider;
      const connector = client === null ? null : await statusOf(client).catch(() => null);
      // The settings of a running connector count, because it may have been started with other settings than are saved.
      const runtime = connector === null ? provider.runtime : runtimeOf(connector, provider);
      const platform = connector === null ? provider.platform : PLATFORMS[connector.runtime.platform];
      const [problem, finding] = await Promise.all([
        runtime?.problem() ?? null,
        platform.id === "inbox" ? { configPath: null, reasons: [] } : platform.detect(machine, stateDir),
      ]);
      const reachable = problem === null;
      const hookToken = runtime?.target.hookToken ?? null;
      const url = runtime?.url ?? null;
      const facts = {
        agent: folder?.name ?? null,
        platform: platform.id,
        isInstalled: file !== null,
        url,
        reachable,
        problem,
        hasToken: hookToken !== null,
        configPath: finding.configPath,
        reasons: finding.reasons,
        connection: connector?.connection.state ?? null,
      };
      ctx.out.result(facts, [
        ctx.out.bold(`${platform.name}, for ${folder?.name ?? "every agent on this machine"}`),
        ...runtime === null ? [`${folder?.name ?? "Each agent"} reads its messages itself.`] : [],
        ...fields([
          ["at", url ?? undefined],
          ["answers", url === null ? undefined : reachable ? "yes" : `NO: ${problem}`],
          ["token", url === null ? undefined : hookToken === null ? "none" : "saved"],
          ["settings", finding.configPath],
          ["found by", finding.reasons.join("; ") || null],
          ["connector", folder === null ? undefined : facts.connection ?? "not running"],
        ]),
      ]);
      return reachable ? EXIT.done : EXIT.failed;
    },
  }),
  command({
    path: ["provider", "doctor"],
    summary: "Check the agent, runtime, connector and peers, and suggest fixes; read-only",
    details: [
      "Each line names the source of its fact; a running connector is asked first. Exits with 1 if a check fails.",
    ],
    options: {
      ...WHERE,
      peer: PEER,
      "platform-state-dir": STATE_DIR,
      "skip-connector-runtime": { summary: "Skip the checks of the running connector" },
    },
    examples: { "svc provider doctor": "Print one line per check, with a fix for each failure" },
    async run(ctx, { options }) {
      const { folder, agents } = await placeOf(ctx, options["agent-name"]);
      const names = folder !== null ? [folder.name] : agents;
      const checks: (DoctorCheck & { agent: string | null })[] = [];
      let platform: string | null = null;
      for (const name of names.length > 0 ? names : [null]) {
        ctx.out.doing(`Checking ${name ?? "this machine"}`);
        const provider = await providerOf(ctx, options, name === null ? null : (await placeOf(ctx, name)).folder);
        const found = await runChecks(
          { ...provider, now: ctx.clock.now() },
          { peer: options.peer, skipConnector: options["skip-connector-runtime"] },
        );
        checks.push(...found.map((check) => ({ ...check, agent: name })));
        platform = names.length > 1 ? null : provider.platform.id;
      }
      const healthy = checks.every(({ ok }) => ok);
      const shown = (text: string) =>
        ctx.out.withTimes(text.replace(/did:svc:\S+/, (did) => ctx.out.shown(idCell(did)) ?? ""));
      const mark = ({ ok }: DoctorCheck) => ok ? ctx.out.green("pass") : ctx.out.red("FAIL");
      const width = Math.max(...checks.map(({ name }) => name.length));
      ctx.out.result({ agent: folder?.name ?? null, platform, healthy, checks }, [
        ...checks.flatMap((check, i) => [
          ...(names.length > 1 && check.agent !== checks[i - 1]?.agent ? [ctx.out.bold(check.agent ?? "")] : []),
          `${mark(check)}  ${check.name.padEnd(width)}  ${shown(check.seen)}  ${ctx.out.dim(`(from ${check.source})`)}`,
          ...(check.ok ? [] : [`${" ".repeat(width + 8)}${ctx.out.withHere(check.fix)}`]),
        ]),
        healthy ? "All checks passed." : "Some checks failed.",
      ]);
      return healthy ? EXIT.done : EXIT.failed;
    },
  }),
  command({
    path: ["provider", "relay-test"],
    summary: "Test the delivery to a peer and wait for the receipt",
    details: [
      "The peer's connector answers the test itself; its agent does not see it. With --message it is a message for the",
      "agent, and one that is not read within 30 s is no failure. Exits with 1 if the test is refused, or not answered.",
      "Problems of this agent's own runtime are warnings.",
    ],
    options: {
      ...WHERE,
      peer: { ...PEER, summary: "Alias or DID of the peer; optional if there is only one peer" },
      "platform-state-dir": STATE_DIR,
      "platform-base-url": { value: "url", summary: "Runtime URL for the checks before the message" },
      "webhook-token": {
        value: "token",
        summary: "Runtime token for the checks before the message",
        env: "SVC_HOOK_TOKEN",
        secret: true,
      },
      message: { value: "text", summary: "Send this text to the peer's agent in place of a test" },
      "session-id": { value: "id", summary: "Conversation of the message" },
      "no-preflight": { summary: "Skip the checks before the message" },
    },
    examples: { "svc provider relay-test --peer beta": "Test the delivery to beta and show how long it took" },
    async run(ctx, { options }) {
      const conversationId = options["session-id"];
      if (conversationId !== undefined && !ConversationId.safeParse(conversationId).success) {
        throw new CliError("CLI_USAGE", "--session-id must be 1 to 128 visible ASCII characters without a comma");
      }
      const { folder } = await connectorOf(ctx, options["agent-name"]);
      const provider = await providerOf(ctx, options, folder);
      const { client } = provider;
      if (client === null) throw new LocalDown(folder.name, "does not run");
      const peer = options.peer ?? onlyPeer(Object.keys(presentPeers(readPeers(folder))));
      if (!options["no-preflight"]) {
        const checks = await runChecks({ ...provider, now: ctx.clock.now() }, { skipConnector: false });
        const failed = checks.filter(({ ok }) => !ok);
        const stopper = failed.find(({ name }) => BLOCKING_CHECKS.has(name));
        if (stopper) {
          ctx.out.result({ agent: folder.name, peer, healthy: false, failed: stopper }, [
            `${ctx.out.red("FAIL")}  ${stopper.name}: ${stopper.seen}`,
            `  ${ctx.out.withHere(stopper.fix)}`,
          ]);
          return EXIT.failed;
        }
        for (const { name, seen, fix } of failed) ctx.out.warn(`${name}: ${seen}. ${fix}`);
      }
      ctx.out.doing(`Waiting for the receipt of ${peer}`);
      const probe = { peer, message: options.message, conversationId };
      const result = await sendProbe(ctx, client, probe).catch((error) => {
        // A refusal is the result of the test, so it is printed and not thrown.
        if (!(error instanceof ApiError)) throw error;
        const described = describeFor(folder.name, error), { code, cause, fix } = described;
        ctx.out.result({ agent: folder.name, peer, healthy: false, error: errorJson(described) }, [
          `${ctx.out.red("FAIL")}  not delivered: ${code}: ${cause}`,
          ...fix === "" ? [] : [`  ${ctx.out.withHere(fix)}`],
        ]);
        return null;
      });
      if (result === null) return EXIT.failed;
      // A connector answers a test at once, so a missing receipt means that the test failed. An agent reads a message
      // when it wants, so the receipt of a message may come later.
      const mayBeLate = result.status === null && options.message !== undefined;
      const healthy = result.delivered && (mayBeLate || result.status === "processed_by_svc");
      const after = `delivered after ${result.sentInMs} ms`;
      const receipt = result.status === null
        ? options.message === undefined
          ? ", but no receipt came within 30 s: a peer answers 10 tests a minute"
          : `; ${peer}'s agent has not read it yet`
        : result.status === "dead_lettered"
        ? `, and given up after ${result.receiptInMs} ms`
        : `, ${options.message === undefined ? "answered" : "read"} after ${result.receiptInMs} ms`;
      ctx.out.result({ agent: folder.name, peer, healthy, ...result }, [
        `${healthy ? ctx.out.green("pass") : ctx.out.red("FAIL")}  ${
          result.delivered ? after + receipt : `not delivered: ${result.reason}`
        }`,
        ...fields([["from", folder.name], ["to", peer], ["request", result.requestId]]),
      ]);
      return healthy ? EXIT.done : EXIT.failed;
    },
  }),
];

function onlyPeer(aliases: readonly string[]): string {
  const [first, second] = aliases;
  if (first !== undefined && second === undefined) return first;
  const none = "No peer yet: pair first, with the keys of svc connector start";
  const several = `There are several peers. Give --peer, one of ${aliases.join(", ")}`;
  throw new CliError("CLI_USAGE", first === undefined ? none : several);
}

const WAIT_MS = 30_000;
const LOOK_EVERY_MS = 500;

interface RelayProbe {
  peer: string;
  /** Text of a message that the peer's agent reads. Without it the message is a probe, which its connector answers. */
  message: string | undefined;
  conversationId: string | undefined;
}

/**
 * Sends the message and waits for its receipt.
 *
 * @returns `reason`: why it was not delivered, which is `queued`, `refused`, or the reason of the recipient's
 * connector; `status`: that of the receipt, `null` when none came in time
 * @throws the refusal of the connector or the proxy
 */
async function sendProbe({ clock, random }: Context, connector: LocalCalls, probe: RelayProbe) {
  const { peer, message, conversationId } = probe;
  const requestId = `probe-${toBase64Url(random.bytes(12))}`, began = clock.now();
  const payload = message === undefined ? { svcProbe: requestId } : { message };
  const body = { to: peer, payload, requestId, conversationId };
  const sent = await call(connector, HookAnswer, post("/v1/outbound", body));
  const sentInMs = clock.now() - began, left = timeLeft(clock, WAIT_MS);
  while (sent.delivered && left() > 0) {
    const { receipts } = await call(connector, CheckedReceipts, get("/v1/receipts", { to: peer, requestId }));
    const status = receipts.findLast(({ problem }) => problem === undefined)?.status;
    if (status) return { requestId, delivered: true, reason: null, status, sentInMs, receiptInMs: clock.now() - began };
    await sleep(clock, LOOK_EVERY_MS);
  }
  const reason = sent.delivered ? null : sent.queued ? "queued" : sent.reason ?? "refused";
  return { requestId, delivered: sent.delivered, reason, status: null, sentInMs, receiptInMs: null };
}
