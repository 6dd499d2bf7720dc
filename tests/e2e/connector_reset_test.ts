/**
 * A proxy that resets the connection at a step of the WebSocket handshake: the connector keeps running, also the
 * compiled one.
 */
import net from "node:net";
import { assertEquals } from "@std/assert";
import { createAgents, svc } from "../cli/connector/people.ts";
import { programs } from "../cli/program.ts";
import { ChildProcess, eventually, Service } from "../support/process.ts";
import { longTest } from "../support/trials.ts";

const UPGRADE = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
/** What the proxy answers before the reset. */
const ANSWERS = [
  null,
  "",
  "HTTP/1.1 10",
  UPGRADE.slice(0, -10),
  `${UPGRADE}Sec-WebSocket-Accept: x\r\n\r\n`,
  "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\n{",
];

/** A server that takes these answers in turn, one for each connection, and resets it. */
class Resetting implements AsyncDisposable {
  connections = 0;
  readonly #server: net.Server;

  private constructor(answers: readonly (string | null)[]) {
    this.#server = net.createServer((socket) => {
      const answer = answers[this.connections++ % answers.length] ?? null;
      socket.on("error", () => {});
      const reset = () => void socket.resetAndDestroy();
      if (answer === null) return reset();
      socket.once("data", () => answer === "" ? reset() : socket.write(answer, reset));
    });
  }

  static async listen(answers: readonly (string | null)[]): Promise<Resetting> {
    const server = new Resetting(answers);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get wsUrl(): string {
    return `ws://127.0.0.1:${(this.#server.address() as net.AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

for (const program of await programs()) {
  longTest(`the connector keeps running when the proxy resets the handshake (${program.name})`, async () => {
    await using service = await Service.here();
    await using stack = new AsyncDisposableStack();
    const dir = service.home;
    await createAgents(dir, service, ["agent-0", "agent-2", "agent-4"]);
    const children: { name: string; child: ChildProcess; server: Resetting }[] = [];
    for (let i = 0; i < ANSWERS.length; i += 2) {
      const name = `agent-${i}`;
      const server = stack.use(await Resetting.listen(ANSWERS.slice(i, i + 2)));
      const args = ["connector", "start", name, "--config-dir", dir, "--proxy-ws-url", server.wsUrl];
      const child = new ChildProcess([...program.args, ...args], {}, program.command);
      children.push({ name, child: stack.use(child), server });
    }
    // The library's own deadline used to end the compiled connector 10 s later; by the fourth attempt it has passed.
    const attempts = program.name === "compiled" ? 4 : 3;
    for (const { name, child, server } of children) {
      let status: Deno.CommandStatus | null = null;
      void child.status.then((ended) => status = ended);
      await eventually(60_000, `${name} tries again`, () => {
        assertEquals(status, null, child.printed);
        return server.connections >= attempts || undefined;
      });
      await svc(dir, ["connector", "status", name], {}, program).catch((error: Error) => {
        // Exit code 1 means not connected; a connector that has ended prints a different text.
        if (!/"state":"(?:waiting|connecting)"/.test(error.message)) throw error;
      });
      assertEquals((await child.end("SIGTERM")).code, 0, child.printed);
    }
  });
}
