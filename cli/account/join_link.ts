/**
 * The join link of an invite: `https://<registry origin>/join#<invite code>`. The code is in the fragment, which no
 * client sends to a server. An error about a link never repeats it.
 */
import { isLoopback, parseServiceUrl } from "../../shared/client/service_url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { CliError } from "../errors.ts";

export interface JoinLink {
  /** Origin of the registry. */
  registryUrl: string;
  /** The invite code; a secret. */
  code: string;
}

const FORM = "https://<registry>/join#svc_inv_…";
/** Longest origin, `/join#` and code together; a host name has at most 253 characters. */
const MAX_LENGTH = 512;
/** Scheme, authority, path, query and fragment. */
const PARTS = /^(https?):\/\/([^/?#\\\s]+)([^?#]*)(\?[^#]*)?(?:#(.*))?$/is;
const CODE = /^svc_inv_[A-Za-z0-9_-]+$/;

/** Returns the link of an invite. */
export function joinLink({ registryUrl, code }: JoinLink): string {
  return `${registryUrl}/join#${code}`;
}

/** Returns the words of the command that the invited person runs. */
export function joinWords(link: JoinLink): string[] {
  const isPlain = link.registryUrl.startsWith("http:") && !isLoopback(link.registryUrl);
  return ["join", joinLink(link), ...isPlain ? ["--allow-insecure"] : []];
}

/** Returns the parts of a join link. @throws {CliError} `CLI_USAGE` with the reason */
export function parseJoinLink(text: string): JoinLink {
  if (text.length > MAX_LENGTH) throw refused(`it has more than ${MAX_LENGTH} characters`);
  const [, scheme, authority = "", path, query, fragment] = PARTS.exec(text) ?? [];
  if (scheme === undefined) throw refused("it is not an http or https address");
  if (authority.includes("@")) throw refused("it has a user name");
  const registryUrl = parseServiceUrl(`${scheme}://${authority}`);
  if (registryUrl === null) throw refused("its host is not valid");
  if (path !== "/join") throw refused("its path is not /join");
  if (query !== undefined) throw refused("it has a query");
  if (fragment === undefined) throw refused("the part after # is missing; copy the whole link, and quote it");
  if (fragment.length > LIMITS.inviteCodeLength || !CODE.test(fragment)) {
    throw refused("the part after # is not an invite code");
  }
  return { registryUrl, code: fragment };
}

function refused(why: string): CliError {
  return new CliError("CLI_USAGE", `The join link cannot be used: ${why}`, {
    fix: `A join link has the form ${FORM}.`,
  });
}
