/**
 * How a server stops (D-70): SIGINT and SIGTERM with open sockets, half-sent requests and deliveries in flight. Every
 * client gets an answer, every socket its close code, and the process exits with 0 before an ack time (10 s) has passed.
 */
import { assert, assertEquals } from "@std/assert";
import { CLOSE, returnWindow } from "../../shared/protocol/frames.ts";
import {
  Connector,
  freePort,
  type LiveAgent,
  messageTo,
  pair,
  PATIENT,
  Service,
  SOON_MS,
  startServerHere,
  tempFolder,
  within,
} from "../support/process.ts";
import { codeOf, RawConnection, rawRequest, usualLines } from "../support/raw_http.ts";
import { outcome } from "./harness.ts";

const SOCKETS = 20;

Deno.test(`SIGTERM answers requests in flight, closes ${SOCKETS} sockets with 1001 and exits with 0`, async (t) => {
  await using service = await Service.open(PATIENT);
  const { server, url } = service;
  const sender = await service.agent("sender");
  const recipients: LiveAgent[] = [];
  const connectors: Connector[] = [];
  const release = Promise.withResolvers<void>();
  for (let i = 0; i < SOCKETS; i++) {
    const recipient = await service.agent(`recipient-${i}`);
    await pair(sender, recipient);
    // Half of them acknowledge once the shutdown is under way, the others never.
    const ack = i % 2 === 0 ? release.promise.then(() => ({ accepted: true })) : new Promise<never>(() => {});
    recipients.push(recipient);
    connectors.push(await Connector.open(service.place, recipient, () => ack));
  }
  await using idle = await RawConnection.open(url);
  await using halfHead = await RawConnection.open(url);
  await halfHead.send("POST /v1/invites/redeem HTTP/1.1\r\nHost: svc\r\nConte");
  await using halfBody = await RawConnection.open(url);
  const lines = [...usualLines(url), ["Content-Length", "100"] as const];
  await halfBody.send(rawRequest("POST", "/v1/invites/redeem", lines, '{"code":'));
  await using late = await RawConnection.open(url);
  await using prober = await RawConnection.open(url);
  const inFlight = recipients.map((recipient) => outcome(sender.client.sendMessage(messageTo(recipient))));
  await Promise.all(connectors.map((connector) => connector.frame(1)));

  const began = performance.now();
  server.signal("SIGTERM");
  await t.step("a new request is refused during the shutdown", async () => {
    let result = "";
    let requestId: string | undefined;
    // The signal takes a moment to arrive; until then requests are served.
    while (!result.startsWith("503")) {
      assert(performance.now() - began < SOON_MS, `still answers ${result}`);
      const target = "/hooks/agent";
      await late.send(rawRequest("POST", target, usualLines(url, "{}"), "{}"));
      const answer = await late.answer();
      assert(answer, "the connection was closed instead");
      result = `${answer.status} ${codeOf(answer)}`;
      requestId = answer.headers.get("x-request-id");
    }
    assertEquals(result, "503 PROXY_RELAY_UNAVAILABLE");
    assert(requestId, "every answer carries x-request-id");
  });
  await t.step("during the shutdown readyz is 503 and healthz 200", async () => {
    for (const [path, status] of [["/readyz", 503], ["/healthz", 200]] as const) {
      await prober.send(rawRequest("GET", path, usualLines(url)));
      assertEquals((await prober.answer())?.status, status, path);
    }
  });
  release.resolve();

  await t.step("each message in flight is answered: 202 for an ack that still arrived, otherwise 502", async () => {
    const answers = await within(SOON_MS, "all are answered", Promise.all(inFlight));
    answers.forEach((answer, i) => {
      assertEquals(answer, i % 2 === 0 ? "202 true" : "502 PROXY_RELAY_DELIVERY_FAILED", `message ${i}`);
    });
  });
  await t.step("every socket is closed with 1001 and the time within which to connect again", async () => {
    const ends = await within(
      SOON_MS,
      "all are closed",
      Promise.all(connectors.map((connector) => connector.closed)),
    );
    assertEquals(ends.map(({ code }) => code), Array(SOCKETS).fill(CLOSE.shuttingDown));
    assertEquals(ends.filter(({ reason }) => returnWindow(reason) === null), []);
  });
  await t.step("the process exits with 0 and does not wait for the ack time of a message", async () => {
    const { code } = await within(SOON_MS, "the end of the process", server.status);
    assertEquals(code, 0);
    await idle.answers();
    await halfHead.answers();
    await halfBody.answers();
  });
});

Deno.test("a server without work in progress exits at once, also with open connections", async () => {
  await using service = await Service.open(PATIENT);
  const { b } = await service.agents();
  const connector = await service.connect(b);
  await using _idle = await RawConnection.open(service.url);
  // Another server that waits for an acknowledgement shows how long "at once" may be on this machine.
  await using busy = await Service.open(PATIENT);
  const pair = await busy.agents();
  const silent = await Connector.open(busy.place, pair.b, () => new Promise<never>(() => {}));
  const sending = outcome(pair.a.client.sendMessage(messageTo(pair.b)));
  await silent.frame(1);
  const order: string[] = [];
  const codes = await Promise.all(
    ([["busy", busy], ["idle", service]] as const).map(async ([name, { server }]) => {
      const { code } = await server.end("SIGTERM");
      order.push(name);
      return code;
    }),
  );
  assertEquals([codes, order], [[0, 0], ["idle", "busy"]]);
  assertEquals((await connector.closed).code, CLOSE.shuttingDown);
  assertEquals(await sending, "502 PROXY_RELAY_DELIVERY_FAILED");
});

Deno.test("a second signal does not shorten the first shutdown", async () => {
  await using service = await Service.open(PATIENT);
  const { a, b } = await service.agents();
  const connector = await Connector.open(service.place, b, () => new Promise<never>(() => {}));
  const sending = outcome(a.client.sendMessage(messageTo(b)));
  await connector.frame(1);
  service.server.signal("SIGINT");
  service.server.signal("SIGINT");
  service.server.signal("SIGTERM");
  assertEquals(await sending, "502 PROXY_RELAY_DELIVERY_FAILED");
  assertEquals((await connector.closed).code, CLOSE.shuttingDown);
  assertEquals((await within(SOON_MS, "the end of the process", service.server.status)).code, 0);
});

Deno.test("a step of the clock during the shutdown does not cut off a request in flight", async () => {
  await using folder = await tempFolder();
  const server = await startServerHere({ folder: folder.path, env: { PORT: String(freePort()) } });
  await using client = await RawConnection.open(server.address);
  const body = '{"code":"svc_inv_unknown","displayName":"Ada","apiKeyName":"laptop"}';
  const lines = [...usualLines(server.address), ["Content-Length", String(body.length)] as const];
  await client.send(rawRequest("POST", "/v1/invites/redeem", lines, body.slice(0, 9)));
  // The server has the request once it has answered a later one.
  await (await fetch(`${server.address}/health`)).body?.cancel();
  const stopped = server[Symbol.asyncDispose]();
  const { now } = Date;
  Date.now = () => now() + 3_600_000;
  try {
    await new Promise((resolve) => setTimeout(resolve, 200));
    await client.send(body.slice(9));
    assertEquals((await client.answer())?.status, 400);
  } finally {
    Date.now = now;
    await stopped;
  }
});
