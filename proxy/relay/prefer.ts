/** Reads the `Prefer` header (RFC 7240). One linear pass over a bounded input. */
import { LIMITS } from "../../shared/protocol/limits.ts";

const WANTED = "respond-async";

/** Returns true when `respond-async` is one of the preferences. A header over the limit counts as absent. */
export function prefersAsync(prefer: string | null): boolean {
  if (prefer === null || prefer.length > LIMITS.preferLength) return false;
  return namesOf(prefer).includes(WANTED);
}

/** Returns the lower-case names of the preferences: the text outside quoted strings before `,`, `;` or `=`. */
function namesOf(prefer: string): string[] {
  const names: string[] = [];
  let name = "", isName = true, isQuoted = false;
  for (let i = 0; i < prefer.length; i++) {
    const char = prefer.charAt(i);
    if (isQuoted) {
      if (char === "\\") i++;
      else if (char === '"') isQuoted = false;
    } else if (char === '"') {
      isQuoted = true;
    } else if (char === ",") {
      names.push(name);
      name = "";
      isName = true;
    } else if (char === ";" || char === "=") {
      isName = false;
    } else if (isName) {
      name += char;
    }
  }
  return [...names, name].map((text) => text.trim().toLowerCase());
}
