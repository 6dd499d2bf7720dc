/**
 * Every regular expression of the product (D-211), by file. A row is either the worst text that the expression can meet,
 * as the text before, the repeated part and the text behind, or the reason why no outside input reaches it.
 */

/** The text before, the part that is repeated to the wanted length, and the text behind. */
export type WorstText = readonly [head: string, unit: string, tail: string];

export interface RegexRow {
  literal: string;
  worst?: WorstText;
  /** Why no input from outside reaches the expression. */
  never?: string;
}

const meets = (literal: string, head: string, unit: string, tail: string): RegexRow => ({
  literal,
  worst: [head, unit, tail],
});
const never = (literal: string, reason: string): RegexRow => ({ literal, never: reason });

const OWN_FILE = "the text is a settings file of the person who runs the command";
const OS_MESSAGE = "the text is a message of the operating system";
const BUILD_TIME = "the text is the path of a row of the route table";

export const REGEXES: Readonly<Record<string, readonly RegexRow[]>> = {
  "cli/agent_store.ts": [meets(String.raw`/^\.(.+)\.pending$/`, ".", ".pending", "x")],
  "cli/commands/agent.ts": [
    meets(String.raw`/^(?:[1-9]\d?|100)$/`, "", "1", "x"),
    meets(String.raw`/^[1-9]\d*$/`, "", "1", "x"),
  ],
  "cli/commands/connector_service.ts": [meets(String.raw`/^[1-9]\d{0,5}$/`, "", "1", "x")],
  "cli/commands/provider_world.ts": [meets(String.raw`/^\d{1,5}$/`, "", "1", "x")],
  "cli/config_store.ts": [meets(String.raw`/^[\x21-\x7e]{1,256}$/`, "", "x", " ")],
  "cli/connector/link.ts": [meets("/^http/", "", "h", "")],
  "cli/connector/listening.ts": [meets(String.raw`/^http:\/\/127\.0\.0\.1:\d+$/`, "http://127.0.0.1:", "1", "x")],
  "cli/connector/local_api.ts": [
    meets(String.raw`/^[!-+\--~]{1,128}$/`, "", "x", " "),
    meets("/^Bearer ([!-~]+)$/i", "Bearer ", "x", " "),
  ],
  "cli/connector/pairing_hint.ts": [meets(String.raw`/^[A-Za-z0-9_.\/:@%+,=-]+$/`, "", "x", "'")],
  "cli/connector/peers.ts": [
    meets("/[A-Za-z0-9](?:.*[A-Za-z0-9])?/", "x", "-", ""),
    meets("/[^A-Za-z0-9._-]+/g", "", " x", ""),
  ],
  "cli/connector/proxy_place.ts": [
    meets(String.raw`/^wss?:\/\//i`, "", "ws", ""),
    meets("/^ws/i", "", "w", ""),
    meets("new RegExp(`${CONNECT_PATH}/?$`)", "", "/v1/relay/connect/", "x"),
  ],
  "cli/connector/runtime.ts": [
    meets(String.raw`/^\/(?!\/)[A-Za-z0-9._~!$&'()*+,;=:@%\/-]*$/`, "/", "x/", " "),
    meets(String.raw`/^[\x21-\x7e]{1,1024}$/`, "", "x", " "),
  ],
  "cli/connector/start.ts": [meets(String.raw`/^\d{1,5}$/`, "", "1", "x")],
  "cli/context.ts": [
    meets("/proxy$/i", "", "proxy", "x"),
    meets("/^y(es)?$/i", "", "yes", "x"),
    meets(String.raw`/^\[|\]$/g`, "[", "]", "x"),
  ],
  "cli/files.ts": [
    meets(String.raw`/^\.svc-[A-Za-z0-9_-]{16}\.tmp$/`, ".svc-", "x", ".tmp"),
    never("/^[A-Z]+: /", OS_MESSAGE),
    never(String.raw`/ \(os error \d+\).*$/s`, OS_MESSAGE),
    never(String.raw`/, \w+ '.*'$/s`, OS_MESSAGE),
  ],
  "cli/main.ts": [meets("/[.]$/", "", ".", "x")],
  "cli/output.ts": [
    meets(String.raw`/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g`, "", "\u001b", ""),
    meets("/^[a-z]+[ ,.:;]/", "", "a", "!"),
    meets("/^(?:svc|https?:)/", "", "http", ""),
    meets("/[.!?…]$/", "", ".", "x"),
  ],
  "cli/parse.ts": [meets("/^--?/", "", "-", ""), meets("/=.*$/s", "", "=", "\n")],
  "cli/platforms/hermes.ts": [meets(String.raw`/^\/webhooks\//`, "", "/webhooks", "")],
  "cli/platforms/nanobot.ts": [meets("/nanobot/i", "", "nanobo", "")],
  "cli/platforms/openclaw.ts": [
    meets(String.raw`/^OpenClaw\b/i`, "", "OpenClaw", ""),
    meets(String.raw`/\/$/`, "", "/", "x"),
    meets(String.raw`/\/agent$/`, "", "/agent", "x"),
  ],
  "cli/platforms/settings.ts": [
    never(String.raw`/\r?\n/`, OWN_FILE),
    never(String.raw`/^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/`, OWN_FILE),
    never(String.raw`/^(["'])(.*)\1$/s`, OWN_FILE),
    never(String.raw`/^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=/`, OWN_FILE),
  ],
  "cli/refresh.ts": [meets("/^[A-Za-z0-9_-]{43}$/", "", "x", " ")],
  "cli/request_file.ts": [
    meets(String.raw`/\s/`, "", "x", " "),
    meets(String.raw`/\r?\n/`, "", "\r", ""),
    meets(String.raw`/^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/`, "GET x HTTP/", "1.", " "),
    meets(String.raw`/^(https?:\/\/[^/?#]+)(.*)$/i`, "https://", "x", "\n"),
  ],
  "cli/service_url.ts": [
    meets(String.raw`/^https?:\/\/[^/?#@\\\s]+\/?$/i`, "http://", "x", "/x"),
    meets(String.raw`/^127(?:\.\d{1,3}){3}$/`, "127", ".1", "x"),
  ],
  "cli/services/launchd.ts": [meets(String.raw`/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g`, "", "\u0001", "")],
  "cli/services/systemd.ts": [
    meets(String.raw`/["'\\*?[\u0000-\u001f\u007f]/`, "", "x", "*"),
    meets(String.raw`/[\u0000-\u001f\u007f]/g`, "", "\u0001", ""),
  ],
  "cli/verification.ts": [meets("/^(svc_[a-z]+_|svcpair1_)/", "svc_", "a", "")],
  "cli/verify.ts": [meets(String.raw`/^Svc +(\S+)$/i`, "Svc", " ", "x x")],
  "deploy_store.ts": [meets("/^(https?:|:memory:$)/", "", "http", "")],
  "proxy/admission/key_cache.ts": [
    meets(String.raw`/(?:^|[\s,])max-age=(\d{1,9})/`, "", ",max-age=", ""),
  ],
  "shared/protocol/api/fields.ts": [meets(String.raw`/^[1-9]\d{0,2}$/`, "", "1", "x")],
  "shared/protocol/api/pairing.ts": [meets("/[^\\s`]/", "", " `", "")],
  "shared/protocol/api/relay.ts": [meets(String.raw`/^[!-+\--~]{1,128}$/`, "", "x", " ")],
  "shared/protocol/api/services.ts": [meets("/^[a-z0-9][a-z0-9_-]{1,63}$/", "", "x", " ")],
  "shared/protocol/base64url.ts": [meets("/^[A-Za-z0-9_-]*$/", "", "x", "=")],
  "shared/protocol/did.ts": [
    meets("/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/", "", "x", "-"),
    meets(String.raw`/^(?:0|[1-9]\d{0,2})$/`, "", "1", "x"),
    meets(String.raw`/^(?:\d+|0x[0-9a-f]*)$/`, "0x", "1", "x"),
  ],
  "shared/protocol/errors.ts": [meets("/^[A-Z0-9_]{1,64}$/", "", "A", "a")],
  "shared/protocol/identity_block.ts": [
    meets(String.raw`/[\u0000-\u001f\u007f]/g`, "", "\u0001", ""),
    meets(String.raw`/[\p{Cc}\p{Default_Ignorable_Code_Point}]/gu`, "", "\u{e0041}\u0301", ""),
    meets(String.raw`/(\r\n|[\n\r\u000b\u000c\u0085\u2028\u2029])/`, "", "\r\n", "\r"),
    meets(String.raw`/[\s\u0085]+/g`, "", " x", "\u0085"),
  ],
  "shared/protocol/ids.ts": [
    meets("/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/", "", "0", "x"),
    meets("/^[A-Za-z0-9._:-]{8,128}$/", "", "x", " "),
  ],
  "shared/protocol/names.ts": [
    meets("/^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/", "x", ".", ""),
    meets(String.raw`/^(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$)(?:\.|$)/i`, "", "con", ""),
    meets(String.raw`/[\u0000-\u001f\u007f-\u009f]/`, "", "x", "\u0000"),
    meets(String.raw`/[\u202a-\u202e\u2066-\u2069]/`, "", "x", "\u202a"),
  ],
  "shared/protocol/proof.ts": [
    meets("/^[A-Za-z0-9_-]{16,128}$/", "", "x", " "),
    meets("/^ws(s?):/i", "w", "s", ""),
  ],
  "shared/protocol/ticket.ts": [meets("/[^\\s`](?:.*[^\\s`])?/s", "x", "`", "")],
  "shared/protocol/time.ts": [
    meets(
      String.raw`/^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/`,
      "2026-02-21T00:00:00.",
      "1",
      "Z",
    ),
    meets("/^(0|[1-9][0-9]{0,15})$/", "", "1", "x"),
  ],
  "shared/server/cacheable.ts": [meets(String.raw`/^W\//`, "", "W/", "")],
  "shared/server/client_ip.ts": [
    meets(String.raw`/^\d{1,3}$/`, "", "1", "x"),
    meets(String.raw`/^\[|\]$/g`, "[", "]", "x"),
    meets("/%.*$/s", "", "%", "\n"),
  ],
  "shared/server/config.ts": [
    meets(String.raw`/^\d{1,15}$/`, "", "1", "x"),
    meets("/^https?:$/", "", "http", ""),
    meets("/[?#]/", "", "x", "#"),
  ],
  "shared/server/documents.ts": [meets(`/[&<>"']/g`, "", "&", "")],
  "shared/server/kv.ts": [
    meets("/^https?:/", "", "http", ""),
    never("/database (?:table )?is locked/", OS_MESSAGE),
  ],
  "shared/server/log.ts": [
    meets(
      "/secret|token|ticket|password|authorization|proof|privatekey|seed|signature|ait$|code$|access$/i",
      "",
      "passwor",
      "",
    ),
    meets("/svc_(?:pat|agt|rft|srv|inv)_|svcpair1_|eyJ/", "", "svc_pat", ""),
    meets(
      String.raw`/(?:svc_(?:pat|agt|rft|srv|inv)_|svcpair1_)[\w.~%-]*|eyJ[\w-]+(\.[\w.~%-]*)?/g`,
      "",
      "eyJ",
      "",
    ),
    meets(String.raw`/(?:svc_(?:pat|agt|rft|srv|inv)_|svcpair1_)[\w-]*/g`, "", "svc_pat_", "!"),
    meets("/^(?:[2-6][0-9a-f]|7[0-9a-e])$/i", "", "2", ""),
    meets(String.raw`/[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g`, "", "\u2028", ""),
  ],
  "shared/server/openapi.ts": [
    never("/:([A-Za-z]+)/g", BUILD_TIME),
    never("/[^A-Za-z0-9]+/g", BUILD_TIME),
  ],
  "shared/server/place.ts": [
    meets("/^https?:/", "", "http", ""),
    meets("/^[A-Za-z0-9.:_-]+$/", "", "x", " "),
  ],
  "shared/server/signed_request.ts": [
    meets("/ +/", "", " x", " "),
    meets(String.raw`/[\s,]/`, "", "x", ","),
  ],
};
