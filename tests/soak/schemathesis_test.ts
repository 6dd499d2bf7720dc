/**
 * Schemathesis, a test kit for OpenAPI, runs all its phases against a real server: each answer has a status and a body
 * that the document names, each request that the document allows is accepted, and each other one is refused. What it
 * finds is nothing, or is explained in docs/departures.md.
 */
import { assert, assertEquals } from "@std/assert";
import { signedHeaders } from "../../cli/link/signed_headers.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { ROOT } from "../support/child_command.ts";
import { rawExchange, rawRequest, usualLines } from "../support/raw_http.ts";
import { deps, type LiveAgent, Service, tempFolder } from "../support/process.ts";
import { SCHEMATHESIS, schemathesisProgram } from "../support/schemathesis.ts";

const program = await schemathesisProgram();
if (program === null) console.log(`skipped: no ${SCHEMATHESIS}; it needs python3 with venv and pip`);

/** Examples of each operation in a phase. With more the run takes minutes and has found nothing else. */
const EXAMPLES = 20;
const SEED = 1;

/** Statuses that the kit does not expect of these operations, by its check. Each is a row of docs/departures.md. */
const EXPLAINED: readonly [operation: string, status: number, check: keyof typeof EXPECTED][] = [
  ["POST /v1/agents/challenge", 400, "positive_data_acceptance"],
  ["POST /v1/agents", 400, "positive_data_acceptance"],
  ["POST /v1/invites", 400, "positive_data_acceptance"],
  ["POST /v1/invites/redeem", 400, "positive_data_acceptance"],
  ["GET /v1/relay/connect", 426, "negative_data_rejection"],
];

/** What the kit expects without a configuration. */
const EXPECTED = {
  positive_data_acceptance: ["2xx", "3xx", "401", "403", "404", "409", "429", "5xx"],
  negative_data_rejection: ["400", "401", "403", "404", "405", "406", "409", "415", "422", "428", "429", "5xx"],
} as const;

/** What the kit sends as its credential. The front puts the right one for the operation in its place. */
const CREDENTIAL = "Bearer credential-of-the-test-kit";

interface OperationSecurity {
  method: string;
  pattern: RegExp;
  schemes: readonly string[];
}

/**
 * A front of the server that signs: the kit can send an API key, but no proof that covers the request. It replaces only
 * `CREDENTIAL`, and only in a request whose other headers have the form of the document, so that the server sees each
 * wrong request unchanged. Each request has an address of its own, because the limits per address would hide the answers.
 */
class SigningFront implements AsyncDisposable {
  readonly #service: Service;
  readonly #agent: LiveAgent;
  readonly #operations: readonly OperationSecurity[];
  readonly #http: Deno.HttpServer<Deno.NetAddr>;
  #requests = 0;

  private constructor(service: Service, agent: LiveAgent, operations: readonly OperationSecurity[]) {
    this.#service = service;
    this.#agent = agent;
    this.#operations = operations;
    this.#http = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => this.#pass(request));
  }

  static async open(service: Service): Promise<SigningFront> {
    const agent = await service.agent();
    const { paths } = await (await fetch(`${service.url}/openapi.json`)).json();
    const operations = Object.entries<Record<string, { security: Record<string, unknown>[] }>>(paths)
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, { security }]) => ({
          method: method.toUpperCase(),
          pattern: new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`),
          schemes: security.flatMap((one) => Object.keys(one)),
        }))
      );
    return new SigningFront(service, agent, operations);
  }

  get address(): string {
    return `http://127.0.0.1:${this.#http.addr.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http.shutdown();
  }

  async #pass(request: Request): Promise<Response> {
    const { url } = this.#service;
    const { method } = request;
    const target = request.url.slice(this.address.length);
    const body = method === "GET" || method === "HEAD" ? undefined : await request.bytes();
    const headers = new Headers(request.headers);
    for (const name of ["host", "content-length", "connection"]) headers.delete(name);
    const n = ++this.#requests;
    headers.set("X-Forwarded-For", `10.${n >> 16 & 255}.${n >> 8 & 255}.${n & 255}`);
    if (headers.get("authorization") === CREDENTIAL) await this.#addCredential(method, target, body, headers);
    if (method === "TRACE") return await traced(url, target);
    return await fetch(url + target, { method, headers, redirect: "manual", ...(body ? { body } : {}) });
  }

  async #addCredential(method: string, target: string, body: Uint8Array | undefined, headers: Headers): Promise<void> {
    const path = target.split("?")[0] ?? "";
    const schemes = this.#operations.find((one) => one.method === method && one.pattern.test(path))?.schemes ?? [];
    if (schemes.includes("api_key")) headers.set("Authorization", `Bearer ${this.#service.apiKey}`);
    if (schemes.includes("admin_token")) {
      headers.set("Authorization", `Bearer ${await this.#adminToken()}`);
    }
    if (schemes.includes("agent")) await this.#sign(method, target, body, headers);
  }

  async #adminToken(): Promise<string> {
    const answer = await fetch(`${this.#service.url}/v1/admin/tokens`, {
      method: "POST",
      headers: { Authorization: `Bearer ${this.#service.apiKey}` },
    });
    return (await answer.json()).token;
  }

  async #sign(method: string, target: string, body: Uint8Array | undefined, headers: Headers): Promise<void> {
    const forms: [name: string, pattern: RegExp][] = [
      [HEADERS.timestamp, /^(0|[1-9][0-9]{0,15})$/],
      [HEADERS.nonce, /^[A-Za-z0-9_-]{16,128}$/],
      [HEADERS.bodySha256, /^[A-Za-z0-9_-]{43}$/],
      [HEADERS.proof, /^[A-Za-z0-9_-]{86}$/],
    ];
    if (headers.has(HEADERS.access)) forms.push([HEADERS.access, /^svc_agt_[A-Za-z0-9_-]{43}$/]);
    if (!forms.every(([name, pattern]) => pattern.test(headers.get(name) ?? ""))) return;
    const recipient = headers.get(HEADERS.recipient);
    const signed = await signedHeaders(deps, this.#agent.identity, {
      method,
      url: this.#service.url,
      target,
      ...(body ? { body: new TextDecoder().decode(body) } : {}),
      ...(recipient === null ? {} : { recipient }),
    });
    for (const [name, value] of Object.entries(signed)) headers.set(name, value);
    if (headers.has(HEADERS.access)) headers.set(HEADERS.access, this.#agent.identity.accessToken);
  }
}

/** Passes a request on that `fetch` refuses to send. */
async function traced(url: string, target: string): Promise<Response> {
  const answer = await rawExchange(url, rawRequest("TRACE", target, usualLines(url)));
  if (!answer) throw new Error("The server gave no answer");
  return new Response(answer.body, { status: answer.status, headers: [...answer.headers] });
}

/** Returns the configuration of the kit: the explained statuses count as accepted. */
function configuration(): string {
  const rows = EXPLAINED.map(([operation, status, check]) =>
    [
      "[[operations]]",
      `include-name = "${operation}"`,
      `checks.${check}.expected-statuses = ${JSON.stringify([...EXPECTED[check], String(status)])}`,
    ].join("\n")
  );
  return `${rows.join("\n\n")}\n`;
}

Deno.test({
  name: "schemathesis finds nothing in the document and the answers of a server, in all its phases",
  ignore: program === null,
  async fn() {
    await using folder = await tempFolder();
    await using service = await Service.open({
      API_KEY_REQUESTS_PER_MINUTE: "1000000",
      TRUSTED_PROXIES: "127.0.0.1",
    });
    await using front = await SigningFront.open(service);
    await Deno.writeTextFile(`${folder.path}/schemathesis.toml`, configuration());
    const { code, stdout, stderr } = await new Deno.Command(program ?? "", {
      args: [
        ...["run", `${front.address}/openapi.json`, "-H", `Authorization: ${CREDENTIAL}`, "--no-color"],
        ...["--max-examples", String(EXAMPLES), "--seed", String(SEED), "--generation-database", "none"],
      ],
      cwd: folder.path,
      stdout: "piped",
      stderr: "piped",
    }).output();
    const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    console.log(text.split("\n").filter((line) => /generated|found|^=+ .* in /.test(line)).join("\n"));
    assert(code === 0, text);
    assert(/Tested: +\d+/.test(text), text);
  },
});

Deno.test("each status that the kit is told to accept is explained in docs/departures.md", async () => {
  const text = await Deno.readTextFile(`${ROOT}/docs/departures.md`);
  const missing = EXPLAINED.filter(([operation, status]) => !text.includes(`| \`${operation}\` | ${status} |`));
  assertEquals(missing, []);
});
