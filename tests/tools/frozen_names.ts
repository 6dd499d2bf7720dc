/**
 * Reads every name from the product that is stored or sent between two versions: key parts, record kinds, notes between
 * instances, tables, frames, event names. frozen_names_test.ts compares them with tests/support/frozen_names.ts.
 */
import { EVENTS } from "../../cli/connector/events.ts";
import { KEYS as PROXY_KEYS } from "../../proxy/schema/kv_keys.ts";
import { KEYS as REGISTRY_KEYS } from "../../registry/schema/kv_keys.ts";
import { FRAMES } from "../../shared/protocol/frames.ts";

export type Names = Record<string, readonly string[]>;

const ROOT = new URL("../../", import.meta.url);
const PRODUCT = ["shared/", "registry/", "proxy/", "cli/", "deploy.ts", "deploy_store.ts", "svc.ts"];

/** Names by group; each list is sorted. */
export async function namesInProduct(): Promise<Names> {
  const files = await productFiles();
  const texts = files.map(({ text }) => text);
  const all = texts.join("\n");
  const server = files.filter(({ path }) => path.startsWith("shared/server/")).map(({ text }) => text).join("\n");
  return {
    registryKeys: keyParts(REGISTRY_KEYS),
    proxyKeys: keyParts(PROXY_KEYS),
    otherKeys: sorted(
      server.matchAll(/^(?:export )?const \w+(?:: [\w.]+)? = \["(\w+)", "(\w+)"\]/gm),
      (match) => match.slice(1).join("/"),
    ),
    records: sorted(files.filter(({ path }) => /keys\.ts$/.test(path)).flatMap(({ text }) => recordMembers(text, all))),
    notes: sorted(texts.flatMap(noteMembers)),
    tables: sorted(texts.flatMap(columns)),
    frames: sorted(
      Object.entries(FRAMES).map(([type, { members }]) => `${type}: ${Object.keys(members).sort().join(" ")}`),
    ),
    connectorEvents: sorted(Object.keys(EVENTS)),
    logEvents: sorted([
      ...all.matchAll(/\blog\(\s*(?:"(?:debug|info|warn|error)"|[^"\n]{1,40}?),\s*"([a-z_]+)"/g),
      // The events that a watched key logs are parameters of it.
      ...[...all.matchAll(/failureEvents: (\{ poll: "[a-z_]+", watch: "[a-z_]+" \})/g)]
        .flatMap(([, events = ""]) => [...events.matchAll(/"([a-z_]+)"/g)]),
    ], ([, name = ""]) => name),
  };
}

/** Kind of each key: the parts before the values of a caller. */
function keyParts(keys: object): string[] {
  const parts: string[] = [];
  for (const make of Object.values(keys) as ((...args: unknown[]) => unknown)[]) {
    // Numbers also serve as texts: a part from a caller is the number or its hash.
    const made = make(...Array.from({ length: make.length }, () => "0")) as Deno.KvKey | { start: Deno.KvKey };
    const key = Array.isArray(made) ? made : (made as { start: Deno.KvKey }).start;
    parts.push(`${String(key[0])}/${String(key[1])}`);
  }
  return sorted(parts);
}

/** `key: members` of each record whose type the key table in a file's header names. */
function recordMembers(keys: string, all: string): string[] {
  const service = /=> \["(\w+)", \.\.\.parts\]/.exec(keys)?.[1] ?? "";
  return [...keys.matchAll(/^ \* \| (\w+)[^|]*\| ([A-Z]\w+)[^|]*\|/gm)].map(([, key, type = ""]) =>
    `${service}/${key}: ${membersOf(type, all).join(" ")}`
  ).filter((row) => !row.endsWith(": "));
}

/** Members of an interface of the product, and of those that it extends; relies on `deno fmt`. */
function membersOf(name: string, all: string): string[] {
  const [, parents = "", body = ""] =
    new RegExp(`^(?:export )?interface ${name}(?: extends ([\\w, ]+))? \\{\\n([\\s\\S]*?)^\\}`, "m").exec(all) ?? [];
  const own = [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm)].map(([, member = ""]) => member);
  return [...own, ...parents.split(/, */).filter(Boolean).flatMap((parent) => membersOf(parent, all))].sort();
}

/** `kind: members` of each note between instances, from the types. */
function noteMembers(text: string): string[] {
  if (!/kind: "dispatched";/.test(text)) return [];
  return [...text.matchAll(/\{\s*kind: "(\w+)";([^{}]*)\}/g)].map(([, kind = "", rest = ""]) => {
    const members = [...rest.matchAll(/(?:^|;)\s*(\w+)\??:/g)].map(([, name = ""]) => name);
    return `${kind}: ${members.sort().join(" ")}`;
  });
}

/** `table: columns` of each `CREATE TABLE`, with the columns that later steps add. */
function columns(text: string): string[] {
  return [...text.matchAll(/CREATE TABLE (\w+) \(\n([\s\S]*?)\n\) STRICT/g)].map(([, table = "", body = ""]) => {
    const added = text.matchAll(new RegExp(`ALTER TABLE ${table} ADD COLUMN ([a-z_]+) `, "g"));
    const names = [...body.matchAll(/^ {2}([a-z_]+) [A-Z]/gm), ...added].map(([, name = ""]) => name);
    return `${table}: ${names.sort().join(" ")}`;
  });
}

function sorted<T>(list: Iterable<T>, name: (one: T) => string = String): string[] {
  return [...new Set([...list].map(name))].sort();
}

async function productFiles(): Promise<{ path: string; text: string }[]> {
  const files: { path: string; text: string }[] = [];
  const visit = async (path: string): Promise<void> => {
    if (!path.endsWith("/")) {
      files.push({ path, text: await Deno.readTextFile(new URL(path, ROOT)) });
      return;
    }
    for await (const { name, isDirectory } of Deno.readDir(new URL(path, ROOT))) {
      if (isDirectory && path + name !== "shared/jsr") await visit(`${path}${name}/`);
      else if (name.endsWith(".ts")) await visit(path + name);
    }
  };
  for (const path of PRODUCT) await visit(path);
  return files;
}
