/** Deno's OpenTelemetry export of a real server, read by a small receiver of OTLP in JSON. */
import { assert, assertEquals } from "@std/assert";
import { messageTo, ROOT, Service, startServer, tempFolder, within } from "../support/process.ts";

interface Attribute {
  key: string;
  value: { stringValue?: string };
}

interface Metric {
  name: string;
  sum?: { dataPoints: { attributes: Attribute[]; asDouble?: number; asInt?: string }[] };
}

interface Span {
  name: string;
  attributes: Attribute[];
}

/** Keeps what a server exports. */
class Receiver implements AsyncDisposable {
  readonly metrics: Metric[] = [];
  readonly spans: Span[] = [];
  #changed = Promise.withResolvers<void>();
  readonly #http = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { resourceMetrics = [], resourceSpans = [] } = await request.json();
    for (const { scopeMetrics } of resourceMetrics) {
      for (const { metrics } of scopeMetrics) this.metrics.push(...metrics);
    }
    for (const { scopeSpans } of resourceSpans) for (const { spans } of scopeSpans) this.spans.push(...spans);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
    return Response.json({});
  });

  get url(): string {
    return `http://127.0.0.1:${this.#http.addr.port}`;
  }

  async until(what: string, isThere: () => boolean): Promise<void> {
    while (!isThere()) await within(10_000, what, this.#changed.promise);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http.shutdown();
  }
}

const textOf = (attributes: Attribute[], key: string) =>
  attributes.find((attribute) => attribute.key === key)?.value.stringValue;

Deno.test("OTEL_DENO exports the metrics of the table and spans with the path of their route", async () => {
  await using receiver = new Receiver();
  await using service = await Service.open({
    OTEL_DENO: "true",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_METRIC_EXPORT_INTERVAL: "200",
    OTEL_BSP_SCHEDULE_DELAY: "200",
  });
  const { a, b } = await service.agents();
  const connector = await service.connect(b);
  await a.client.sendMessage(messageTo(b));
  await connector.close();

  const delivered = () =>
    receiver.metrics.filter(({ name }) => name === "svc_relay_messages_total")
      .flatMap(({ sum }) => sum?.dataPoints ?? [])
      .some((point) =>
        textOf(point.attributes, "outcome") === "delivered" && Number(point.asDouble ?? point.asInt) === 1
      );
  await receiver.until("the counter of messages", delivered);
  const isMessage = ({ attributes }: Span) => textOf(attributes, "http.route") === "/hooks/agent";
  await receiver.until("the span of the message", () => receiver.spans.some(isMessage));
  const names = new Set(receiver.metrics.map(({ name }) => name));
  for (const name of ["svc_build_info", "svc_relay_ack_seconds_bucket", "svc_process_resident_memory_bytes"]) {
    assert(names.has(name), name);
  }
  // A span has the whole address, so no secret may stand in one.
  const addresses = receiver.spans.flatMap(({ attributes }) => textOf(attributes, "url.full") ?? []);
  assert(addresses.length > 0);
  assertEquals(addresses.filter((url) => /svc_|eyJ|svcpair1_/.test(url)), []);
});

Deno.test("a server whose collector does not answer ends in time with the variables of its unit", async () => {
  const unit = await Deno.readTextFile(`${ROOT}/docs/examples/svc.service`);
  const [, milliseconds = ""] = /OTEL_EXPORTER_OTLP_TIMEOUT=(\d+)/.exec(unit) ?? [];
  const [, seconds = ""] = /TimeoutStopSec=(\d+)/.exec(unit) ?? [];
  using collector = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await using folder = await tempFolder();
  await using server = await startServer({
    folder: folder.path,
    env: {
      OTEL_DENO: "true",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collector.addr.port}`,
      OTEL_EXPORTER_OTLP_TIMEOUT: milliseconds,
    },
  });
  await (await fetch(`${server.address}/nothing`)).body?.cancel();
  assertEquals((await server.end("SIGTERM", Number(seconds) * 1000)).code, 0);
});
