/**
 * Every regular expression of the product. A row is either the worst text for the expression, as the text before, the
 * repeated part and the text after, or the reason why no outside input reaches it.
 */

/** The text before, the part that is repeated to the wanted length, and the text after. */
export type WorstText = readonly [head: string, unit: string, tail: string];

export interface RegexRow {
  literal: string;
  worst?: WorstText;
  /** The source of an expression that the code constructs. */
  source?: string;
  /** Why no input from outside reaches the expression. */
  never?: string;
}

const meets = (literal: string, head: string, unit: string, tail: string, source?: string): RegexRow => ({
  literal,
  worst: [head, unit, tail],
  ...(source === undefined ? {} : { source }),
});
const never = (literal: string, reason: string): RegexRow => ({ literal, never: reason });

const OWN_FILE = "the text is a settings file of the person who runs the command";
const OS_MESSAGE = "the text is a message of the operating system";
const BUILD_TIME = "the text is the path of a row of the route table";

export const REGEXES: readonly RegexRow[] = [
  never("/./", "the text is the name of a file that svc has written"),
  never(String.raw`/[\ud800-\udbff]/`, "the text is one character"),
  meets(String.raw`/[\r\n]+\s*/g`, "x", "\n", "x"),
  meets(String.raw`/\.\d+$/`, ".", "1", "x"),
  never(String.raw`/\p{Cc}/u`, "the text is a variable of the server"),
  never(String.raw`/^[a-z]{2,}:\//i`, "the text is a variable of the server"),
  never(String.raw`/^https?:\/\//`, "the text is a variable of the server"),
  meets("/^-{1,2}([^=]+)(?:=(.*))?$/s", "", "-", ""),
  meets(String.raw`/^\.(.+)\.pending$/`, ".", ".pending", "x"),

  meets(String.raw`/^[1-9]\d{0,15}$/`, "", "1", "x"),
  meets(String.raw`/^([1-9]\d{0,3})(min|h|d)$/`, "", "1", "x"),
  meets("/^[A-Za-z0-9_-]+$/", "", "x", " "),
  meets(String.raw`/^[\n\r\x20-\x7e]*$/`, "", "x", "\t"),
  meets(String.raw`/\[svc identity\]/i`, "", "[svc identity", "x"),
  meets("/^ */", "", " ", ""),
  meets(String.raw`/\n\r?\n/`, "", "\n\r", "x"),
  meets("/^[a-z_]{1,64}$/", "", "a", " "),
  meets(String.raw`/^\d{1,9}[a-z]?$/`, "", "1", " "),
  meets(String.raw`/([\b\x7f\x01\x05\x0b\x15\x17])/`, "", "x", ""),
  meets(String.raw`/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}$/`, "", "x", " "),
  meets(String.raw`/^[A-Za-z]{1,32}$/`, "", "x", " "),
  meets(String.raw`/^[\x21-\x7e]+$/`, "", "x", " "),
  meets("/^[a-z0-9.-]{1,80}$/", "", "x", " "),
  meets(String.raw`/(\p{RGI_Emoji})|[\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]/gv`, "", "\u{1f469}\u200d", ""),
  meets(String.raw`/[&<>"']|(?![\t\n])[\p{Cc}\u2028\u2029]/gu`, "", "\u0001", ""),
  meets(String.raw`/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g`, "", "\u001b", ""),
  meets(String.raw`/\.$/`, "", ".", "x"),
  meets("/[.!?]$/", "", ".", "x"),
  meets(String.raw`/\s+/g`, "", " ", ""),
  meets("/^[0-9]{1,3}$/", "", "1", "x"),
  meets(String.raw`/[\t\n\r]/`, "", "x", ""),
  meets(String.raw`/\r?\n$/`, "", "\n", "x"),
  meets(String.raw`/^\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]|O.|[^[O])/s`, "\x1b[", "0", ""),
  meets(
    String.raw`/^shutting down; connect again within (\d{1,6}) ms$/`,
    "shutting down; connect again within ",
    "1",
    "x",
  ),
  meets(String.raw`/\\ud[89a-f]/`, "", "\\ud", "x"),
  meets("/ *[^ ]+| +$/g", "", " ", ""),
  meets(
    'new RegExp(`(${PROGRAM}) (?:(?:${QUOTED}|(?!["\'])[^ ]*[^ ,;:.]) )*(?:${QUOTED}|[^ ]+)`, "g")',
    "svc ",
    "x. ",
    "",
    String
      .raw`(\bsvc|(?<=: )(?:rm|npm)) (?:(?:"[^"]*"|'[^']*'(?:\\''[^']*')*|(?!["'])[^ ]*[^ ,;:.]) )*(?:"[^"]*"|'[^']*'(?:\\''[^']*')*|[^ ]+)`,
  ),
  meets(
    'new RegExp(` ?(?:${QUOTED}|[^ ]+)`, "g")',
    "'",
    String.raw`\''x`,
    "",
    String.raw` ?(?:"[^"]*"|'[^']*'(?:\\''[^']*')*|[^ ]+)`,
  ),
  meets(
    "new RegExp(`^svc(?: --(?:config-dir|profile|ca) (?:${QUOTED}|[^ ]+))*`)",
    "svc",
    " --ca 'x'",
    " --ca 'x",
    String.raw`^svc(?: --(?:config-dir|profile|ca) (?:"[^"]*"|'[^']*'(?:\\''[^']*')*|[^ ]+))*`,
  ),
  meets(String.raw`/\x1b\[\d+(?:;\d+)*m|\p{RGI_Emoji}|./gsv`, "\x1b[", "0;", ""),
  meets(String.raw`/[\x1b\ufe0f\u200d\u{e007f}]/u`, "", "x", ""),
  meets("/^ *(?:[^ ]+ )*[^ ]+ {2,}(?=[^ ])|^ +/", "", "x ", "x"),
  meets(String.raw`/^[\w.:-]+$/`, "", "x", " "),
  meets("/^…/", "", "…", ""),
  meets(String.raw`/^\d{1,6}\.\d{1,6}\.\d{1,6}(?![.\d])/`, "1.1.", "1", "x"),
  meets(String.raw`/^[\d.]+/`, "", "1", "x"),
  meets("/svc_[a-z]+_|svcpair1_|https?:/", "", "svc_a", ""),
  meets("/^ +/", "", " ", "x"),
  meets(String.raw`/[\r\n]+/`, "", "\n", "x"),
  meets("/[\\s`]+/", "", " ", "x"),
  meets(String.raw`/\r\n?/g`, "", "\r", ""),
  meets("/^(?:rxvt|foot)/", "", "f", ""),
  meets(String.raw`/^[\s>]+/`, "", ">", "x"),
  never(String.raw`/^\d$/`, "the text is one key of the person at the terminal"),
  meets(String.raw`/^(?:\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::\d+)?$/`, "a", ".a", "!"),
  meets(String.raw`/^(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$/`, "127.0.0.", "1", "x"),
  never("/^y$/i", "the text is one key of the person at the terminal"),
  meets("/}$/", "", "}", "x"),
  never(String.raw`/^\s*(\d+)\s+(-?\d+)\s*$/`, "the text is a status file of the operating system"),
  meets("/[;=]/", "", "x", ""),

  meets(String.raw`/^[1-9]\d{0,5}$/`, "", "1", "x"),
  meets(String.raw`/^\d{1,5}$/`, "", "1", "x"),
  meets(String.raw`/^[\x21-\x7e]{1,256}$/`, "", "x", " "),
  meets("/^http/", "", "h", ""),
  meets(String.raw`/^http:\/\/127\.0\.0\.1:\d+$/`, "http://127.0.0.1:", "1", "x"),
  never(String.raw`/^http:\/\/127\.0\.0\.1:(\d+)$/`, "the text is a record that this server has written"),

  meets(String.raw`/^[!-+\--~]{1,128}$/`, "", "x", " "),
  meets("/^Bearer ([!-~]+)$/i", "Bearer ", "x", " "),
  meets(String.raw`/^\/(?:v1|a2a)\//`, "/", "v1/", ""),
  meets("/^a-[A-Za-z0-9_-]{43}$/", "a-", "x", "!"),
  meets("/^[A-Za-z0-9._:-]{1,128}$/", "", "x", " "),
  meets(String.raw`/^1\.\d{1,3}$/`, "1.", "1", "x"),

  meets("/[A-Za-z0-9](?:.*[A-Za-z0-9])?/", "x", "-", ""),
  meets("/[^A-Za-z0-9._-]+/g", "", " x", ""),

  meets(String.raw`/^wss?:\/\//i`, "", "ws", ""),
  meets("/^ws/i", "", "w", ""),
  meets(String.raw`/\/v1\/relay\/connect\/?$/`, "", "/v1/relay/connect/", "x"),
  meets(
    "new RegExp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,${ALIAS_CHARACTERS_MAX - 1}}$`)",
    "",
    "a",
    " ",
    "^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$",
  ),

  meets(String.raw`/^\/(?!\/)[A-Za-z0-9._~!$&'()*+,;=:@%\/-]*$/`, "/", "x/", " "),
  meets(String.raw`/^[\x21-\x7e]{1,1024}$/`, "", "x", " "),

  meets(String.raw`/^[\t\x20-\x7e]*$/`, "", "x", "\u00e9"),
  meets(String.raw`/^[\x20-\x7e]+$/`, "", "x", "\t"),
  meets("/^[a-z0-9!#$%&'*+.^_`|~-]+$/", "", "x", " "),
  meets("/[&+%]/", "", "x", ""),
  meets("/^[A-Za-z0-9_-]{86}$/", "", "x", " "),
  meets("/^svc_agt_[A-Za-z0-9_-]{43}$/", "svc_agt_", "x", " "),

  meets("/^y(es)?$/i", "", "yes", "x"),
  meets(String.raw`/^\[|\]$/g`, "[", "]", "x"),
  meets(String.raw`/^\[([^\]]*)\](?::\d+)?$|^([\d.]+):\d+$/`, "[", "1", "]x"),

  meets(String.raw`/^\.svc-[A-Za-z0-9_-]{16}\.tmp$/`, ".svc-", "x", ".tmp"),
  meets(String.raw`/^"(\w{1,20})";q=(\d{1,9});w=(\d{1,6})$/`, '"', "1", " "),
  never(String.raw`/client error \(Connect\)|connection refused|ECONNREFUSED|ENOTFOUND/i`, OS_MESSAGE),
  never("/^[A-Z]+: /", OS_MESSAGE),
  never("/^Permission denied .*'(.+)'$/", OS_MESSAGE),
  never(
    "/ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENETDOWN|ENOTFOUND|EAI_AGAIN|network is unreachable|no route to host|dns error/i",
    OS_MESSAGE,
  ),
  meets(String.raw`/did:svc:\S+/`, "did:svc:", "a", " "),
  meets(String.raw`/\d{4}-\d\d-\d\dT[\d:.]+Z/g`, "2026-11-26T", "1", "x"),
  meets(String.raw`/(\d{4}-\d\d-\d\dT[\d:.]+Z)/`, "2026-11-26T", "1", "x"),
  meets(
    'new RegExp(`\\\\bsvc (?=(?:${this.groups.join("|")})\\\\b)`, "g")',
    "",
    "svc ",
    "x",
    String.raw`\bsvc (?=(?:admin|agent)\b)`,
  ),
  never(String.raw`/ \(os error \d+\).*$/s`, OS_MESSAGE),
  never(String.raw`/, \w+ '.*'$/s`, OS_MESSAGE),

  meets("/[.]$/", "", ".", "x"),

  meets("/^(?:an?|another|no|not|several|the|there|this|too|unread) /", "", "no ", "!"),
  meets("/[.!?…*]$/", "", ".", "x"),

  meets(String.raw`/^\/webhooks\//`, "", "/webhooks", ""),
  meets("/nanobot/i", "", "nanobo", ""),

  meets(String.raw`/^OpenClaw\b/i`, "", "OpenClaw", ""),
  meets(String.raw`/\/$/`, "", "/", "x"),
  meets(String.raw`/\/agent$/`, "", "/agent", "x"),

  never(String.raw`/\r?\n/`, OWN_FILE),
  never(String.raw`/ = \d+$/`, "the text is an entry that svc writes"),
  meets(String.raw`/^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)$/`, "A=x", " ", "y\u2028"),
  meets(String.raw`/^(["'])(.*?)\1\s*(?:#.*)?$/s`, '"', '" ', "x"),
  meets(String.raw`/\s#.*$/s`, "", " ", "x"),
  meets("/[.eE]/", "", "1", ""),
  meets(String.raw`/^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=/`, "export", " ", "1"),

  meets("/^[A-Za-z0-9_-]{43}$/", "", "x", " "),

  meets(String.raw`/\s/`, "", "x", " "),
  meets(String.raw`/^([A-Z]+) (\S+)(?: HTTP\/[\d.]+)?$/`, "GET x HTTP/", "1.", " "),
  meets(String.raw`/^(https?:\/\/[^/?#]+)(.*)$/i`, "https://", "x", "\n"),

  meets(String.raw`/^https?:\/\/[^/?#@\\\s]+\/?$/i`, "http://", "x", "/x"),
  meets(String.raw`/^(https?):\/\/([^/?#\\\s]+)([^?#]*)(\?[^#]*)?(?:#(.*))?$/is`, "http://", "x", "\n"),
  meets("/^svc_inv_[A-Za-z0-9_-]+$/", "svc_inv_", "x", "!"),
  meets(String.raw`/^\d{1,16}-\d{1,16}$/`, "1-", "1", "x"),

  meets(String.raw`/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g`, "", "\u0001", ""),

  meets(String.raw`/["'\\*?[\u0000-\u001f\u007f]/`, "", "x", "*"),
  meets(String.raw`/[\u0000-\u001f\u007f]/g`, "", "\u0001", ""),

  meets("/^(svc_[a-z]+_|svcpair1_)/", "svc_", "a", ""),
  meets(String.raw`/^Svc +(\S+)$/i`, "Svc", " ", "x x"),
  meets("/^(https?:|:memory:$)/", "", "http", ""),

  meets(String.raw`/(?:^|[\s,])max-age=(\d{1,9})/`, "", ",max-age=", ""),

  meets(String.raw`/^[1-9]\d{0,2}$/`, "", "1", "x"),
  meets("/[^\\s`]/", "", " `", ""),
  meets("/^[a-z0-9][a-z0-9_-]{1,63}$/", "", "x", " "),
  meets("/^[A-Za-z0-9_-]*$/", "", "x", "="),

  meets("/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/", "", "x", "-"),
  meets(String.raw`/^(?:0|[1-9]\d{0,2})$/`, "", "1", "x"),
  meets(String.raw`/^(?:\d+|0x[0-9a-f]*)$/`, "0x", "1", "x"),

  meets("/^[A-Z0-9_]{1,64}$/", "", "A", "a"),
  meets("/^([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+): /", "A", "_A", "x"),

  meets(String.raw`/[\p{Cc}\p{Default_Ignorable_Code_Point}]/gu`, "", "\u{e0041}\u0301", ""),
  meets(String.raw`/(\r\n|[\n\r\u000b\u000c\u0085\u2028\u2029])/`, "", "\r\n", "\r"),
  meets(String.raw`/[\s\u0085]+/g`, "", " x", "\u0085"),

  meets("/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/", "", "0", "x"),
  meets("/^[A-Za-z0-9._:-]{8,128}$/", "", "x", " "),

  meets("/^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/", "x", ".", ""),
  meets(String.raw`/^(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$)(?:\.|$)/i`, "", "con", ""),
  meets(String.raw`/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/`, "", "x", "\u202a"),

  meets(String.raw`/(?<![\w/.-])[A-Z_]+(?![\w/-])/g`, "", "A", "/"),
  meets("/^[A-Za-z0-9_-]{16,128}$/", "", "x", " "),
  meets("/^ws(s?):/i", "w", "s", ""),

  meets("/[^\\s`](?:.*[^\\s`])?/s", "x", "`", ""),

  meets(
    String.raw`/^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/`,
    "2026-02-21T00:00:00.",
    "1",
    "Z",
  ),
  meets("/^(0|[1-9][0-9]{0,15})$/", "", "1", "x"),

  meets(String.raw`/^W\//`, "", "W/", ""),

  meets(String.raw`/^\d{1,3}$/`, "", "1", "x"),
  meets("/%.*$/s", "", "%", "\n"),

  meets(String.raw`/^\d{1,15}$/`, "", "1", "x"),
  meets("/^https?:$/", "", "http", ""),
  meets("/[?#]/", "", "x", "#"),

  meets(`/[&<>"']/g`, "", "&", ""),

  meets("/^https?:/", "", "http", ""),

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
  meets(String.raw`/[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g`, "", "\u2028", ""),

  never("/:([A-Za-z]+)/g", BUILD_TIME),
  never("/[^A-Za-z0-9]+/g", BUILD_TIME),

  meets("/^[A-Za-z0-9.:_-]+$/", "", "x", " "),

  meets(String.raw`/[\s,]/`, "", "x", ","),

  meets(String.raw`/^(?:\d{1,20}\n?)?$/`, "", "1", "x"),
  meets(
    String.raw`/[\u0000-\u001f\u007f-\u009f\u2028\u2029\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]/gu`,
    "",
    "\u001b",
    "",
  ),
  meets(String.raw`/^[\p{Mn}\p{Me}]/u`, "", "\u0301", ""),
  meets(String.raw`/^[\p{Cn}\p{Co}\p{Cs}\p{Emoji_Presentation}]/u`, "", "\u{1f600}", ""),
  meets(String.raw`/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/`, "00000000", "-0000", ""),
  meets(String.raw`/^\d{1,15}\.\d{1,15}$/`, "", "1", ""),
  meets(String.raw`/\s+/`, "", " ", ""),
  meets(String.raw`/^u(\d+)$/gm`, "u", "1", "x"),
  meets(String.raw`/"(?:\\.?|[^"\\])*"?/g`, "", '\\"', ""),
  meets(String.raw`/"(?:[^"\\]|\\.)*"?/g`, '"', "\\a", ""),
  meets("/[il]/g", "", "i", ""),
  meets(String.raw`/(?:\d\.?){16}|[eE][+-]?\d{3}/`, "", "1.23456789012345x", ""),
  never(String.raw`/^CREATE TABLE (\w+)/gm`, "the text is a statement of the product"),
  meets("/^[A-Z][A-Z0-9_]{0,63}$/", "", "A", "a"),
  meets("/^b-[A-Za-z0-9_-]{43}$/", "b-", "x", " "),
  meets(String.raw`/^[A-Za-z0-9_\/:=@%+.,-]+$/`, "", "x", "'"),
  meets(String.raw`/^--?([^=\s]+)(?:=(.*))?$/s`, "--", "x", "=\n"),
  meets(String.raw`/[\ud800-\udbff][\udc00-\udfff]/`, "", "\ud800", "x"),
  meets(String.raw`/\bsvc [a-z]/`, "", "svc ", "1"),
  meets("/^[a-z0-9-]{1,32}$/", "", "a", "_"),
  meets("/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/", "", "-----BEGIN CERTIFICATE-----x", ""),
  never("/: Expired|certificate expired|CERT_HAS_EXPIRED/", OS_MESSAGE),
  never("/certificate not valid yet|NotValidYet|CERT_NOT_YET_VALID/", OS_MESSAGE),
  never(
    "/UnknownIssuer|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT|SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT/",
    OS_MESSAGE,
  ),
  never("/CaUsedAsEndEntity/", OS_MESSAGE),
  never("/invalid HTTP version parsed|HPE_INVALID_CONSTANT/", OS_MESSAGE),
  never("/InvalidContentType|ERR_SSL_WRONG_VERSION_NUMBER/", OS_MESSAGE),
  never("/invalid peer certificate: (.*)/", OS_MESSAGE),
  never("/not valid for name|NotValidForName|ERR_TLS_CERT_ALTNAME_INVALID/", OS_MESSAGE),
  never("/disk is full/", OS_MESSAGE),
  never("/connection closed before message completed|connection reset by peer/i", OS_MESSAGE),
  never("/unable to open database file|readonly database/", OS_MESSAGE),
  meets("/^[A-Z]/", "", "A", ""),
  meets("/^[0-9A-HJKMNP-TV-Z]+$/", "", "A", "a"),
  meets(String.raw`/^\d{1,9}$/`, "", "1", "x"),
  meets(String.raw`/\s*"revocations"\s*:\s*\[/y`, "", ' "revocations" ', ""),
  never("/^(?:Value|Key|Total (?:key|mutation) size) too large/", OS_MESSAGE),
  never("/^key cannot be empty|^expected string, number, bigint|^expireIn must be/", OS_MESSAGE),
  meets(
    String.raw`/^Too many (?:checks|mutations)|: Too many checks included in atomic write\.$/`,
    "",
    ": Too many checks included in atomic write",
    "",
  ),
  never("/^-/", "the text is a secret that the program makes"),
];
