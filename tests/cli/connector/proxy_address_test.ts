/** Which proxy is dialled, and for which origin requests are signed (D-24). */
import { assertEquals, assertThrows } from "@std/assert";
import type { Context, EnvironmentName } from "../../../cli/context.ts";
import { CliError } from "../../../cli/errors.ts";
import { proxyAddress } from "../../../cli/connector/file_credentials.ts";
import { tempFolder } from "../../support/process.ts";

/** A machine whose settings are all environment variables. */
function machine(variables: Partial<Record<EnvironmentName, string>>, configDir: string): Context {
  return { env: (name: EnvironmentName) => variables[name], configDir, uid: null } as unknown as Context;
}

Deno.test("only wss, or ws to this machine, is dialled without --allow-insecure, from any source", async (t) => {
  await using folder = await tempFolder();
  const place = (url: string, from: "option" | "environment" | "configuration", allow: boolean) => {
    const given = machine({
      ...(from === "environment" ? { SVC_PROXY_WS_URL: url } : {}),
      ...(from === "configuration" ? { SVC_PROXY_URL: url } : {}),
    }, folder.path);
    return proxyAddress({ ...given, allowInsecure: allow }, from === "option" ? url : undefined).dialUrl;
  };
  const insecure = [
    ...["192.0.2.1", "proxy.example", "localhost.evil.example", "127.0.0.1.evil.example", "[2001:db8::1]"],
    ...["10.0.0.1", "0.0.0.0", "128.0.0.1", "[::ffff:192.0.2.1]"],
  ];
  for (const from of ["option", "environment", "configuration"] as const) {
    const [plain, secure] = from === "configuration" ? ["http", "https"] : ["ws", "wss"];
    for (const host of insecure) {
      await t.step(`${plain}://${host} by ${from}`, () => {
        const error = assertThrows(() => place(`${plain}://${host}:9`, from, false), CliError);
        assertEquals(error.code, "CLI_INSECURE_URL");
        assertEquals(place(`${plain}://${host}:9`, from, true), new URL(`http://${host}:9`).origin);
        assertEquals(place(`${secure}://${host}:9`, from, false), new URL(`https://${host}:9`).origin);
      });
    }
    for (const host of ["127.0.0.1", "localhost", "[::1]"]) {
      await t.step(`${plain}://${host} by ${from}`, () => {
        assertEquals(place(`${plain}://${host}:9`, from, false), `http://${host}:9`);
      });
    }
  }
  for (
    const url of ["http://127.0.0.1", "ftp://127.0.0.1", "127.0.0.1", "ws://127.0.0.1@evil.example", "ws://", ""]
  ) {
    await t.step(`"${url}" is not a proxy address`, () => {
      assertThrows(() => place(url, "option", true), CliError);
    });
  }
});

Deno.test("the dialled address may differ from the signed one and may end in the upgrade path", async () => {
  await using folder = await tempFolder();
  const ctx = machine({ SVC_PROXY_URL: "https://proxy.example" }, folder.path);
  const signed = { origin: "https://proxy.example" };
  assertEquals(proxyAddress(ctx), { dialUrl: "https://proxy.example", ...signed });
  assertEquals(proxyAddress(ctx, "ws://127.0.0.1:9"), { dialUrl: "http://127.0.0.1:9", ...signed });
  assertEquals(proxyAddress(ctx, "wss://inner.example/v1/relay/connect"), {
    dialUrl: "https://inner.example",
    ...signed,
  });
  assertThrows(() => proxyAddress(machine({}, folder.path)), CliError, "No proxy is configured");
});
