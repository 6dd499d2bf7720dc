/** Which variables the readers of the configuration ask for. */
import { readProxyConfig } from "../../proxy/config.ts";
import { readRegistryConfig } from "../../registry/config.ts";
import { ConfigReader } from "../../shared/server/config_reader.ts";
import { readServerConfig } from "../../shared/server/server_config.ts";

const PLACE = { environment: "local", registryUrl: "", proxyUrl: "", version: "" } as const;

/** Returns the variables that a reader asks for when none is set. */
export function variablesOf(read: (reader: ConfigReader) => unknown): string[] {
  const asked = new Set<string>();
  read(new ConfigReader((name) => void asked.add(name)));
  return [...asked];
}

/** The variables that the server reads, without those of Deno. */
export const SERVER_VARIABLES: readonly string[] = variablesOf((reader) => {
  readServerConfig(reader, { isOnDeploy: false });
  readRegistryConfig(reader, PLACE);
  readProxyConfig(reader, PLACE);
});
