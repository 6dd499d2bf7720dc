/** Returns the parameters of a path, as `/peers/:alias` names them, or `null` when it is the path of another route. */
export function pathParams(pattern: string, path: string): Record<string, string> | null {
  const names = pattern.split("/"), parts = path.split("/");
  if (names.length !== parts.length) return null;
  const params: Record<string, string> = {};
  for (const [i, name] of names.entries()) {
    const part = parts[i] ?? "";
    if (!name.startsWith(":")) {
      if (name !== part) return null;
      continue;
    }
    try {
      params[name.slice(1)] = decodeURIComponent(part);
    } catch {
      return null;
    }
  }
  return params;
}
