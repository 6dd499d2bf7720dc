/** Reads Markdown for the tests of the documents: links, anchors, words, tables. */

export const ROOT = new URL("../../", import.meta.url);

export async function exists(path: string): Promise<boolean> {
  return await Deno.stat(new URL(path, ROOT)).then(() => true, () => false);
}

export async function readText(path: string): Promise<string> {
  return await Deno.readTextFile(new URL(path, ROOT));
}

/** Returns every Markdown file of the project, as a path from the root. */
export async function markdownFiles(folder = ""): Promise<string[]> {
  return (await filesOf(/\.md$/, folder)).sort();
}

/** Returns every file of the project whose name matches. */
export async function filesOf(pattern: RegExp, folder = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder || ".", ROOT))) {
    if (name.startsWith(".") || ["node_modules", "dist"].includes(name)) continue;
    if (isDirectory) found.push(...await filesOf(pattern, `${folder}${name}/`));
    else if (pattern.test(name)) found.push(folder + name);
  }
  return found;
}

/** Returns a text without fenced blocks, with unchanged line numbers. */
export function withoutFences(text: string): string {
  return text.replace(/^([ \t]*)(```|~~~)[\s\S]*?^\1\2[^\n]*$/gm, (block) => block.replace(/[^\n]/g, ""));
}

/** Returns the anchors of the headings, as the forge creates them. */
export function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, title = ""] of withoutFences(text).matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const plain = title.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]/g, "").toLowerCase();
    const base = plain.replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-");
    let anchor = base;
    for (let n = 1; anchors.has(anchor); n++) anchor = `${base}-${n}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** Returns the targets of links within the project, unchanged. */
export function linksOf(text: string): string[] {
  const prose = withoutFences(text).replace(/`[^`\n]*`/g, "");
  return [...prose.matchAll(/\]\(\s*<?([^)\s>]+)>?[^)]*\)/g), ...prose.matchAll(/^\[[^\]]+\]:\s*(\S+)/gm)]
    .map(([, target = ""]) => target).filter((target) => !/^[a-z][a-z+.-]*:/i.test(target));
}

/** Returns the fault of a link in a file; `null` when it resolves. */
export async function brokenLink(file: string, link: string): Promise<string | null> {
  const [target = "", anchor] = link.split("#");
  const path = target === "" ? file : new URL(target, `file:///${file}`).pathname.slice(1);
  if (!await exists(path)) return `${file}: ${link} names no file`;
  if (anchor === undefined || !path.endsWith(".md")) return null;
  return anchorsOf(await readText(path)).has(anchor) ? null : `${file}: ${link} names no heading`;
}
