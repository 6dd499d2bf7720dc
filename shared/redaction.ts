/** Finds secrets of svc in texts that are logged or printed, because another program or a client may have put one there. */

/** How secrets begin. */
const SECRET_STARTS = /svc_(?:pat|agt|rft|srv|inv)_|svcpair1_|eyJ/;
const SECRETS = /(?:svc_(?:pat|agt|rft|srv|inv)_|svcpair1_)[\w.~%-]*|eyJ[\w-]+(\.[\w.~%-]*)?/g;
const SECRETS_IN_WORD = /(?:svc_(?:pat|agt|rft|srv|inv)_|svcpair1_)[\w-]*/g;

/**
 * Returns the text unchanged, or decoded and redacted if it contains a secret, even a percent-encoded one. Its time
 * grows only in proportion to the length, because a caller chooses the text.
 */
export function withoutSecrets(text: string): string {
  const decoded = text.includes("%") ? percentDecoded(text) : text;
  if (!SECRET_STARTS.test(decoded)) return text;
  const redacted = decoded.replace(SECRETS, (match: string, rest: string | undefined) => {
    const isToken = !match.startsWith("eyJ") || rest !== undefined;
    return isToken ? "[redacted]" : match.replace(SECRETS_IN_WORD, "[redacted]");
  });
  return redacted === decoded ? text : redacted;
}

/** Decodes printable ASCII, even if it was encoded several times, in one pass. */
function percentDecoded(text: string): string {
  const out: string[] = [];
  for (let i = 0; i < text.length; i++) {
    out.push(text.charAt(i));
    while (out.length >= 3 && out[out.length - 3] === "%") {
      const digits = `${out[out.length - 2]}${out[out.length - 1]}`;
      if (!PRINTABLE_ASCII.test(digits)) break;
      out.length -= 3;
      out.push(String.fromCharCode(parseInt(digits, 16)));
    }
  }
  return out.join("");
}

/** The two hexadecimal digits of a printable ASCII character. */
const PRINTABLE_ASCII = /^(?:[2-6][0-9a-f]|7[0-9a-e])$/i;
