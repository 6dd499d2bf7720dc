/** A stolen signing key is ended as docs/security.md says: the refusal then names the command that brings an agent back. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { RegistryClient } from "../support/agent_client.ts";
import { attemptHere, svcHere } from "../cli/connector/people.ts";
import { deps, Service } from "../support/process.ts";

Deno.test("after the end of a signing key the refusal of the own server names the command that works", async () => {
  await using service = await Service.here();
  const dir = `${service.home}/ada`, registry = new RegistryClient(deps, service.url);
  const link = `${service.url}/join#${(await registry.createInvite(service.apiKey)).invite.code}`;
  await svcHere(dir, ["join", link, "--display-name", "Ada", "--agent", "alpha"]);
  assertEquals((await svcHere(dir, ["peers"])).peers, []);

  await service.stopHere();
  const { privateKey } = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]) as CryptoKeyPair;
  const { kty, crv, x, d } = await crypto.subtle.exportKey("jwk", privateKey);
  Object.assign(service.optionsOf(0).env ?? {}, {
    REGISTRY_SIGNING_KEYS: JSON.stringify({ keys: [{ kty, crv, x, d }] }),
  });
  await service.restartHere();
  const { error } = await attemptHere(dir, ["peers"]);
  assertEquals(error?.code, "PROXY_AUTH_INVALID_AIT");
  const [, command = ""] = /run svc --config-dir \S+ (agent reissue alpha) /.exec(JSON.stringify(error)) ?? [];
  assertStringIncludes(command, "alpha", JSON.stringify(error));
  await svcHere(dir, command.split(" "));
  assertEquals((await svcHere(dir, ["peers"])).peers, []);
});
