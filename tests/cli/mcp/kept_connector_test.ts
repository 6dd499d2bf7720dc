/** The connector of an MCP server (D-119, D-127): waited for, kept, and found again after its end. */
import { assertEquals, assertRejects } from "@std/assert";
import { ApiError } from "../../../shared/client/errors.ts";
import type { HttpResponse } from "../../../shared/client/http.ts";
import type { Access } from "../../../cli/connector/attach.ts";
import { CliError } from "../../../cli/errors.ts";
import { KeptConnector } from "../../../cli/mcp/kept_connector.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";

const OK: HttpResponse = { status: 200, text: '{"ok":true}', headers: new Headers() };

/** Access that a test controls. */
class Fake implements Access {
  readonly agentName = "alpha";
  readonly sent: string[] = [];
  isHost = false;
  isDisposed = false;
  failure: unknown = null;

  send(_method: "GET" | "POST", target: string): Promise<HttpResponse> {
    this.sent.push(target);
    return this.failure === null ? Promise.resolve(OK) : Promise.reject(this.failure);
  }

  call(): Promise<unknown> {
    throw new Error("The connection calls send");
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.isDisposed = true;
    return Promise.resolve();
  }
}

Deno.test("a tool waits 10 s for the connector, and the next one gets the connector that came later", async () => {
  const clock = new ManualClock();
  const opening = Promise.withResolvers<Access>();
  let opened = 0;
  await using connection = new KeptConnector(clock, "alpha", () => {
    opened++;
    return opening.promise;
  });
  const early = assertRejects(() => connection.call("GET", "/v1/status"), CliError);
  await clock.advance(9_999);
  assertEquals(clock.waiting, 1);
  await clock.advance(1);
  assertEquals([(await early).code, (await early).fix], ["CLI_CONNECTOR_DOWN", "Call the tool again in some seconds."]);
  const fake = new Fake();
  opening.resolve(fake);
  assertEquals([await connection.call("GET", "/v1/peers"), opened, fake.sent], [{ ok: true }, 1, ["/v1/peers"]]);
});

Deno.test("the reason why no connector starts is the error of the tool, and the next call tries again", async () => {
  const clock = new ManualClock();
  const fake = new Fake();
  const refused = new CliError("CLI_TOKEN_REFUSED", "The agent was revoked");
  let opened = 0;
  await using connection = new KeptConnector(
    clock,
    "alpha",
    () => ++opened === 1 ? Promise.reject(refused) : Promise.resolve(fake),
  );
  assertEquals(await assertRejects(() => connection.call("GET", "/v1/status"), CliError), refused);
  assertEquals(await connection.call("GET", "/v1/status"), { ok: true });
  assertEquals(opened, 2);
});

Deno.test("a connector that has failed in this process is replaced, one that is lost is found by its own access", async () => {
  const clock = new ManualClock();
  const fakes = [new Fake(), new Fake()];
  let opened = 0;
  await using connection = new KeptConnector(clock, "alpha", () => Promise.resolve(fakes[opened++] as Fake));
  const [first, second] = fakes as [Fake, Fake];
  first.failure = new CliError("CLI_CONNECTOR_DOWN", "It does not answer");
  await assertRejects(() => connection.call("GET", "/v1/status"), CliError);
  assertEquals([opened, first.isDisposed], [1, false]);
  first.failure = new ApiError(401, "AGENT_AUTH_REFRESH_REVOKED", "The registry has ended it", null);
  await assertRejects(() => connection.call("GET", "/v1/status"), ApiError);
  await flushTasks();
  assertEquals([opened, first.isDisposed], [1, true]);
  assertEquals(await connection.call("GET", "/v1/status"), { ok: true });
  assertEquals([opened, second.sent], [2, ["/v1/status"]]);
});

Deno.test("an idle MCP server looks for its connector every 5 s, and after a failure every 30 s", async () => {
  const clock = new ManualClock();
  const fake = new Fake();
  let opened = 0;
  const connection = new KeptConnector(
    clock,
    "alpha",
    () => ++opened === 1 ? Promise.reject(new CliError("CLI_TOKEN_REFUSED", "x")) : Promise.resolve(fake),
  );
  const watching = connection.watch();
  await flushTasks();
  await clock.advance(29_999);
  assertEquals(opened, 1);
  await clock.advance(1);
  assertEquals([opened, fake.sent.length], [2, 1]);
  await clock.advance(5_000);
  assertEquals(fake.sent, ["/v1/status", "/v1/status"]);
  fake.isHost = true;
  await clock.advance(20_000);
  assertEquals(fake.sent.length, 2);
  await connection[Symbol.asyncDispose]();
  await watching;
  assertEquals([fake.isDisposed, clock.waiting], [true, 0]);
});

Deno.test("the end of an MCP server waits 5 s for a connector that does not come", async () => {
  const clock = new ManualClock();
  const connection = new KeptConnector(clock, "alpha", () => new Promise(() => {}));
  void connection.watch();
  let isOver = false;
  const ended = connection[Symbol.asyncDispose]().then(() => isOver = true);
  await clock.advance(4_999);
  assertEquals(isOver, false);
  await clock.advance(1);
  await ended;
});
