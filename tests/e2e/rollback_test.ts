/**
 * A server that goes on with an older backup: what each person sees then and does next is what docs/operations.md says. Keys,
 * names and messages of both sides are their own, so nothing of them is lost with the server's memory.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { RegistryClient } from "../support/agent_client.ts";
import { attemptHere, RunningConnector, svcHere } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { deps, eventually, Service, SOON_MS } from "../support/process.ts";
import { longTest } from "../support/trials.ts";

const program = await bundledProgram();

class Person {
  constructor(private readonly dir: string) {}

  svc(...args: string[]) {
    return svcHere(this.dir, args);
  }

  /** Runs a command that must be refused. */
  async refused(code: string, ...args: string[]): Promise<string> {
    const { error } = await attemptHere(this.dir, args);
    assertEquals(error?.code, code, error?.message);
    return error?.message ?? "";
  }

  start(agent: string): Promise<RunningConnector> {
    return RunningConnector.start(this.dir, agent, ["--inbox"], { program });
  }

  pins(agent: string): Record<string, { key: string; gone?: true }> {
    return JSON.parse(Deno.readTextFileSync(`${this.dir}/agents/${agent}/peers.json`));
  }

  async texts(agent: string): Promise<string[]> {
    const { messages } = await this.svc("inbox", "--agent", agent);
    return messages.map(({ text }: { text: string }) => text);
  }

  /** Text and state of each message that the agent has sent. */
  async sent(agent: string): Promise<Record<string, string>> {
    const { messages } = await this.svc("sent", "--agent", agent);
    return Object.fromEntries(messages.map(({ text, state }: { text: string; state: string }) => [text, state]));
  }
}

async function pair(initiator: RunningConnector, responder: RunningConnector): Promise<void> {
  const { ticket } = await initiator.json("POST", "/v1/pair/start", {});
  await responder.json("POST", "/v1/pair/confirm", { ticket });
}

longTest(
  "after a rollback of the server each person sees what is gone, and gets it back with the named commands",
  async () => {
    await using service = await Service.here();
    await using stack = new AsyncDisposableStack();
    const registry = new RegistryClient(deps, service.url);
    const store = `${service.folders[0]?.path}/svc.kv`;
    const link = async () => `${service.url}/join#${(await registry.createInvite(service.apiKey)).invite.code}`;
    const joined = async (name: string, agent: string) => {
      const person = new Person(`${service.home}/${name}`);
      await person.svc("join", await link(), "--display-name", name, "--agent", agent);
      return person;
    };
    const ada = await joined("Ada", "alpha"), bob = await joined("Bob", "beta");
    await bob.svc("agent", "create", "delta");
    const alpha = stack.use(await ada.start("alpha")), beta = await bob.start("beta"), delta = await bob.start("delta");
    await pair(alpha, beta);

    await service.stopHere();
    await Deno.copyFile(store, `${store}.backup`);
    await service.restartHere();
    const carol = await joined("Carol", "gamma");
    const gamma = stack.use(await carol.start("gamma"));
    await eventually(SOON_MS, "the connectors are back", async () => {
      const all = await Promise.all([alpha, beta, delta].map((one) => one.json("GET", "/v1/status")));
      return all.every(({ connection }) => connection.state === "connected") || undefined;
    });
    await pair(alpha, gamma);
    await pair(alpha, delta);
    const isPinned = () => ada.pins("alpha").gamma && ada.pins("alpha").delta ? true : undefined;
    await eventually(SOON_MS, "alpha knows both", isPinned);
    const { key } = ada.pins("alpha").delta ?? {};
    await bob.svc("agent", "auth", "refresh", "delta");
    await ada.svc("send", "delta", "arrived before");
    await beta.child.end("SIGTERM");
    await ada.svc("send", "beta", "queued before");
    await service.stopHere();
    await ada.svc("send", "beta", "kept for beta");

    for (const rest of ["-wal", "-shm"]) await Deno.remove(store + rest).catch(() => {});
    await Deno.copyFile(`${store}.backup`, store);
    await service.restartHere();
    const beta2 = stack.use(await bob.start("beta"));
    await eventually(SOON_MS, "what waited at the connector arrives", async () => {
      return (await bob.texts("beta")).includes("kept for beta") || undefined;
    });
    assertEquals(await bob.texts("beta"), ["kept for beta"]);
    // Beta shows it before the answer of its server has reached alpha.
    await eventually(SOON_MS, "alpha knows of it", async () => {
      return (await ada.sent("alpha"))["kept for beta"] === "delivered" || undefined;
    });
    assertEquals(await ada.sent("alpha"), {
      "arrived before": "delivered",
      "queued before": "queued",
      "kept for beta": "delivered",
    });
    assertEquals(beta2.events.filter(({ event }) => event === "peer_key_changed"), []);

    // A pair that began since.
    const { peers } = await ada.svc("peers", "--agent", "alpha");
    assertEquals(peers.map(({ alias }: { alias: string }) => alias), ["beta"]);
    await eventually(SOON_MS, "alpha has read the list", () => ada.pins("alpha").delta?.gone);
    await ada.refused("CONNECTOR_PEER_UNKNOWN", "send", "delta", "x");
    assertEquals(await bob.texts("delta"), ["arrived before"]);
    // Its session was refreshed since, so the server knows neither token.
    await delta.child.end("SIGTERM");
    const ended = await bob.refused("AGENT_AUTH_REFRESH_INVALID", "agent", "auth", "refresh", "delta");
    const named = ended.replaceAll(/svc --config-dir \S+ /g, "svc ");
    assertStringIncludes(named, "svc agent auth revoke delta, then svc agent reissue delta");
    await bob.svc("agent", "auth", "revoke", "delta");
    await bob.svc("agent", "reissue", "delta");
    const delta2 = stack.use(await bob.start("delta"));
    await pair(alpha, delta2);
    await eventually(SOON_MS, "delta is a peer again", async () => {
      return (await attemptHere(`${service.home}/Ada`, ["send", "delta", "again"])).code === 0 || undefined;
    });
    assertEquals(ada.pins("alpha").delta?.key, key);
    assertEquals(await bob.texts("delta"), ["arrived before", "again"]);

    // An account and an agent that were made since.
    const problem = await eventually(SOON_MS, "gamma's connector says why it waits", async () => {
      const { connection } = await gamma.json("GET", "/v1/status");
      return String(connection.problem).startsWith("AGENT_NOT_FOUND") ? String(connection.problem) : undefined;
    });
    assertStringIncludes(
      problem.replaceAll(/svc --config-dir \S+ /g, "svc "),
      "svc agent delete gamma, then svc agent create gamma",
    );
    assertEquals(gamma.events.filter(({ event }) => event === "waiting").at(-1)?.ms, 300_000);
    await gamma.child.end("SIGTERM");
    const noKey = await carol.refused("API_KEY_INVALID", "agent", "delete", "gamma", "--yes");
    assertStringIncludes(noKey, "join <link> --replace");
    await carol.svc("join", await link(), "--display-name", "Carol", "--replace");
    assertEquals((await carol.svc("agent", "delete", "gamma", "--yes")).status, "unknown");
    await carol.svc("agent", "create", "gamma");
    const gamma2 = stack.use(await carol.start("gamma"));
    await pair(alpha, gamma2);
    const isNew = () => ada.pins("alpha")["gamma-2"] ? true : undefined;
    await eventually(SOON_MS, "alpha knows the new gamma under its own name", isNew);
    await ada.svc("peers", "rename", "gamma-2", "gamma", "--replaces", "--agent", "alpha");
    await ada.svc("send", "gamma", "to the new one");
    assertEquals(await carol.texts("gamma"), ["to the new one"]);
  },
);
