/** Names and shapes of the files in an agent's folder that both the commands of `svc` and the client library read. */
import * as z from "zod";
import { isAgentDid, isHumanDid } from "../protocol/did.ts";
import { parseIso } from "../protocol/time.ts";
import { parseServiceUrl } from "./service_url.ts";

export const AGENT_FILES = {
  identity: "identity.json",
  ait: "ait.jwt",
  seed: "secret.key",
  publicKey: "public.key",
  auth: "registry-auth.json",
} as const;

/** The discovery file of a running connector. */
export const CONNECTOR_FILE = "connector.json";

/** The file that sends a browser to the connector's page. It works only as long as the code in it does. */
export const PAGE_FILE = "open.html";

export const PEERS_FILE = "peers.json";

/** Maximum size of `peers.json` in bytes. With less, 10,000 peers with the longest names would not fit. */
export const PEERS_FILE_BYTES = 16 * 1024 * 1024;

export const Identity = z.object({
  did: z.string().refine(isAgentDid),
  name: z.string(),
  framework: z.string(),
  ownerDid: z.string().refine(isHumanDid),
  /** When the identity token expires. */
  expiresAt: z.string().refine((text) => parseIso(text) !== null),
  registryUrl: z.string().refine((text) => parseServiceUrl(text) !== null),
});
export type Identity = z.infer<typeof Identity>;

/** The content of `connector.json`: address and token of a connector's local API. */
export const ConnectorFile = z.object({
  url: z.string().regex(/^http:\/\/127\.0\.0\.1:\d+$/),
  port: z.int(),
  token: z.string(),
  pid: z.int(),
  agentDid: z.string().refine(isAgentDid),
  startedAt: z.string(),
});
export type ConnectorFile = z.infer<typeof ConnectorFile>;
