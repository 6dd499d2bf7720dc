/** Which names of people and agents fit what an admin typed: in any case, because an admin need not know how a name is written. */

/** A test for names that begin with a text; without a text every name does. */
export function beginsWith(text: string | undefined): (name: string) => boolean {
  const wanted = (text ?? "").toLowerCase();
  return (name) => name.toLowerCase().startsWith(wanted);
}

export function isSameName(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
