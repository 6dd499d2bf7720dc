/**
 * The lint rules of the project: where clock, entropy, environment, error bodies and KV keys may be used. Each rule lists
 * what it forbids, where it is allowed and the alternative. Reads the syntax of one file; check_deps.ts checks imports.
 * Detects mistakes, not deliberately hidden globals.
 */

import { hitsIn, isChecked, plainComment } from "./prose_rules.ts";

type Node = Deno.lint.Node;

/** Project root with forward slashes and a slash at the end. */
const ROOT = slashed(decodeURIComponent(new URL("../../", import.meta.url).pathname)).replace(/^\/(?=[A-Za-z]:)/, "");

const GLOBAL_OBJECTS = new Set(["globalThis", "window", "self"]);
const STORE_NAMES = new Set(["kv", "op", "atomic"]);
const STORE_METHODS = new Set(["get", "set", "delete", "check", "list", "getMany", "watch"]);
const SELECTOR_MEMBERS = new Set(["key", "prefix", "start", "end"]);

/** Files of the CLI and of the client ring that call `fetch`. */
const ONE_FETCH = new Set(["shared/client/http.ts", "cli/system.ts"]);

/** The steps of a message that run in JavaScript alone. */
const ON_EACH_MESSAGE = new Set([
  ...["request", "sender", "delivery"].map((step) => `proxy/message/${step}.ts`),
  ...["standing", "commits"].map((step) => `proxy/admission/${step}.ts`),
]);

/** Methods of built-in objects that Node 20 lacks. */
const NEW_METHODS = new Set(["withResolvers", "fromAsync", "toBase64", "toHex", "fromBase64", "fromHex"]);

const NOT_IN_NODE: Advice = {
  why: "does not exist in Node 20, where shared/client also runs",
  instead: "Take the value as a parameter, or use what both runtimes have.",
};

const COPIES: Advice = {
  why: "makes an object for each message that no caller keeps, so the server stops more often to collect garbage",
  instead: "Name the members, set the optional ones afterwards, or count with an index.",
};

interface Advice {
  why: string;
  instead: string;
}

export default {
  name: "svc",
  rules: {
    "no-ambient-clock": rule(["shared/clock.ts", "shared/page/page.js", "tests/"], (report) => ({
      ...bannedNames(["Date.now", "performance.now", "setTimeout", "setInterval", "AbortSignal.timeout"], report, {
        why: "uses the machine's clock, which no test can move",
        instead: "Take a Clock (shared/clock.ts) as a parameter: clock.now(), clock.after(), sleep(clock, ms).",
      }),
      NewExpression(node) {
        if (nameOf(node.callee) === "Date" && node.arguments.length === 0) report(node, "new Date()", NO_MOMENT);
      },
      CallExpression(node) {
        if (nameOf(node.callee) === "Date") report(node, "Date()", NO_MOMENT);
      },
    })),

    "one-store": rule(["shared/server/kv.ts", "tests/"], (report) => {
      const check = (node: Deno.lint.Node, left: Deno.lint.Node, right: Deno.lint.Node) => {
        const isDeno = left.type === "Identifier" && left.name === "Deno";
        if (!isDeno || right.type !== "Identifier" || !/^(?:Kv(?!U64)|AtomicOperation$)/.test(right.name)) return;
        report(node, `Deno.${right.name}`, {
          why: "names the store of one runtime, whose makers may change it",
          instead: "Import it from shared/server/kv.ts.",
        });
      };
      return {
        TSQualifiedName: (node) => check(node, node.left, node.right),
        MemberExpression: (node) => check(node, node.object, node.property),
      };
    }),

    "no-ambient-entropy": rule(
      ["shared/random.ts", "tests/"],
      (report) =>
        bannedNames(["crypto.getRandomValues", "crypto.randomUUID", "Math.random"], report, {
          why: "draws entropy that no test can repeat",
          instead: "Take a Random (shared/random.ts) as a parameter: random.bytes(n), fraction(random).",
        }),
    ),

    "no-ambient-env": rule(
      ["**/config.ts", "**/config_reader.ts", "cli/system.ts", "tests/"],
      (report) =>
        bannedNames(["Deno.env", "process.env"], report, {
          why: "reads the environment, which is read once, checked as a whole and then frozen",
          instead: "Read it in the service's config.ts (cli/system.ts in the CLI) and take the value as a parameter.",
        }),
    ),

    "pure-protocol": {
      create(context) {
        const path = projectPath(context.filename);
        if (!path.startsWith("shared/protocol/")) return {};
        const names = ["fetch", "WebSocket", "Deno", "localStorage", "console"];
        return bannedNames(path === "shared/protocol/time.ts" ? names : [...names, "Date"], reporter(context), {
          why: "has no place in shared/protocol, which is pure: others run it in other runtimes",
          instead: "Take the value as a parameter, or move the code to its caller; dates are parsed in time.ts.",
        });
      },
    },

    "one-fetch": {
      create(context) {
        const path = projectPath(context.filename);
        if (!/^(?:cli|shared\/client)\//.test(path) || ONE_FETCH.has(path)) return {};
        const report = reporter(context);
        return {
          CallExpression(node) {
            if (nameOf(node.callee).split(".").at(-1) !== "fetch") return;
            report(node.callee, "fetch()", {
              why: "sends a request without the deadline and the bound on the body of the one exchange",
              instead: "Call exchange() of shared/client/http.ts.",
            });
          },
        };
      },
    },

    "runs-in-node": {
      create(context) {
        if (!projectPath(context.filename).startsWith("shared/client/")) return {};
        const report = reporter(context);
        const deno = bannedNames(["Deno"], report, NOT_IN_NODE);
        return {
          ...deno,
          MemberExpression(node) {
            if (NEW_METHODS.has(propertyOf(node))) report(node, `${propertyOf(node)}()`, NOT_IN_NODE);
            deno.MemberExpression?.(node);
          },
          VariableDeclaration(node) {
            if (node.kind === "using" || node.kind === "await using") report(node, node.kind, NOT_IN_NODE);
          },
        };
      },
    },

    "lean-path": {
      create(context) {
        if (!ON_EACH_MESSAGE.has(projectPath(context.filename))) return {};
        const report = reporter(context);
        return {
          SpreadElement(node) {
            report(node, "A spread", COPIES);
          },
          CallExpression(node) {
            if (nameOf(node.callee).endsWith(".entries")) report(node, "entries()", COPIES);
          },
        };
      },
    },

    "no-error-bodies": rule(["shared/server/http/app.ts", "shared/protocol/errors.ts", "cli/", "tests/"], (report) => ({
      CallExpression(node) {
        const callee = nameOf(node.callee);
        if (callee !== "JSON.stringify" && callee.split(".").at(-1) !== "json") return;
        for (const member of node.arguments.flatMap(membersOf)) {
          if (keyOf(member) !== "error") continue;
          report(member, "An error body written by hand", {
            why: "escapes the error table and the one envelope",
            instead: "Throw new ServiceError(code); shared/server/http/app.ts answers it.",
          });
        }
      },
    })),

    "no-kv-sums": rule(["tests/"], (report) => ({
      CallExpression(node) {
        const callee = unwrapped(node.callee);
        if (callee.type !== "MemberExpression" || !isStore(callee.object)) return;
        const method = propertyOf(callee);
        if (!["sum", "min", "max"].includes(method)) return;
        report(callee.property, `The store's ${method}()`, {
          why: "throws at a record of another type and leaves what stood before it in the commit done: half a change",
          instead:
            "Read the record, check it and set it: Changes.run() in shared/server/store/changes.ts, or group commit.",
        });
      },
    })),

    markup: {
      create(context) {
        const path = projectPath(context.filename);
        const report = reporter(context);
        return {
          NewExpression(node) {
            if (nameOf(node.callee) === "Html" && path !== "shared/page/html.ts") {
              report(node, "new Html()", NOT_ESCAPED);
            }
          },
          TaggedTemplateExpression(node) {
            if (nameOf(node.tag) !== "markup") return;
            let before = "";
            for (const [i, value] of node.quasi.expressions.entries()) {
              before += node.quasi.quasis[i]?.cooked ?? "";
              const problem = placeProblem(before);
              if (problem !== null && !(problem === IN_TAG && isMarkup(value))) report(value, problem, NOT_ESCAPED);
              before += "x";
            }
          },
        };
      },
    },

    // Comments, and strings with a space.
    prose: {
      create(context) {
        if (!isChecked(projectPath(context.filename))) return {};
        const check = (range: Deno.lint.Range, text: string) => {
          for (const { rule: { name, instead }, words } of hitsIn(text)) {
            context.report({
              range,
              message: `"${words.trim()}" is not plain English (${name}).`,
              hint: `Use ${instead}.`,
            });
          }
        };
        return {
          Program() {
            for (const comment of context.sourceCode.getAllComments()) {
              if (!/^\s*deno-lint-ignore/.test(comment.value)) check(comment.range, plainComment(comment.value));
            }
          },
          Literal(node) {
            if (typeof node.value === "string" && node.value.includes(" ")) check(node.range, node.value);
          },
          TemplateElement(node) {
            if (node.cooked.includes(" ")) check(node.range, node.cooked);
          },
        };
      },
    },

    "kv-keys": rule(["**/kv_keys.ts", "shared/server/store/trust_changes.ts", "tests/"], (report) => ({
      CallExpression(node) {
        const callee = unwrapped(node.callee);
        if (callee.type !== "MemberExpression" || !isStore(callee.object)) return;
        const method = propertyOf(callee);
        if (!STORE_METHODS.has(method)) return;
        for (const argument of method === "check" ? node.arguments : node.arguments.slice(0, 1)) {
          const selectors = membersOf(argument).filter((member) => SELECTOR_MEMBERS.has(keyOf(member)));
          for (const key of [argument, ...selectors.map((member) => member.value)].filter(isLiteralKey)) {
            report(key, "A KV key written in place", {
              why: "is missing from the key table, where layout, writer and expiry are looked up",
              instead: "Add a function to the service's kv_keys.ts and call it.",
            });
          }
        }
      },
    })),
  },
} satisfies Deno.lint.Plugin;

const NOT_ESCAPED: Advice = {
  why: "puts a value where escaping does not stop it from becoming markup or script",
  instead: "Put it into text or a quoted attribute; attributes that may be absent are markup of their own.",
};
const IN_TAG = "A value in a tag";

/** Why no value may follow the text of a template; `null` in text and in a quoted attribute. */
function placeProblem(before: string): string | null {
  const tag = /<[^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*$/.exec(before)?.[0] ??
    /<[^>"']*(?:"[^"]*"[^>"']*)*"[^"]*$/.exec(before)?.[0];
  if (tag === undefined) return /<(?:script|style)\b[^>]*>[^<]*$/i.test(before) ? "A value in a script or style" : null;
  const attribute = /([\w-]+)\s*=\s*"[^"]*$/.exec(tag)?.[1];
  const isQuoted = (tag.split('"').length - 1) % 2 === 1;
  if (!isQuoted || attribute === undefined) return IN_TAG;
  return /^(?:on|style$|srcdoc$)/i.test(attribute) ? "A value in a style or an event handler" : null;
}

/** Templates of markup, also behind a condition, and `attributes`, which is the name for such a value. */
function isMarkup(expression: Node): boolean {
  const node = unwrapped(expression);
  if (node.type === "LogicalExpression") return isMarkup(node.right);
  if (node.type === "ConditionalExpression") return isMarkup(node.consequent) && isMarkup(node.alternate);
  if (node.type === "TaggedTemplateExpression") return nameOf(node.tag) === "markup";
  return node.type === "Identifier" && node.name === "attributes" || node.type === "Literal" && node.value === "";
}

const NO_MOMENT: Advice = {
  why: "asks the machine what time it is, which no test can move",
  instead: "Take a Clock (shared/clock.ts) as a parameter; new Date(ms) of a given moment is fine.",
};

type Report = (node: Node, what: string, advice: Advice) => void;

/** Returns a rule that is off in the named files: a path, `folder/` or `**` + `/name.ts`. */
function rule(allowedIn: string[], visit: (report: Report) => Deno.lint.LintVisitor): Deno.lint.Rule {
  return {
    create(context) {
      const path = projectPath(context.filename);
      const allowed = allowedIn.some((pattern) =>
        pattern.endsWith("/")
          ? path.startsWith(pattern)
          : pattern.startsWith("**/")
          ? `/${path}`.endsWith(pattern.slice(2))
          : path === pattern
      );
      return allowed ? {} : visit(reporter(context));
    },
  };
}

/** Reports each place once: in `import { setTimeout }` the same name is two nodes. */
function reporter(context: Deno.lint.RuleContext): Report {
  const reported = new Set<number>();
  return (node, what, { why, instead }) => {
    if (reported.has(node.range[0])) return;
    reported.add(node.range[0]);
    context.report({ node, message: `${what} ${why}.`, hint: instead });
  };
}

/** Reports every mention of a global (`setTimeout`) or of its member (`Date.now`), called or not. */
function bannedNames(names: string[], report: Report, advice: Advice): Deno.lint.LintVisitor {
  const banned = new Set(names);
  const judge = (node: Node, name: string) => {
    if (banned.has(name)) report(node, name, advice);
  };
  return {
    Identifier(node) {
      if (!isLabel(node)) judge(node, node.name);
    },
    MemberExpression(node) {
      judge(node, nameOf(node));
    },
    VariableDeclarator(node) {
      if (node.id.type !== "ObjectPattern" || !node.init) return;
      const from = nameOf(node.init);
      for (const member of node.id.properties) {
        if (member.type === "Property") judge(member, joined(from, keyOf(member)));
      }
    },
  };
}

/** Returns true for a name that is only a label: `x` in `a.x`, `{ x: 1 }` and `interface { x(): void }`. */
function isLabel(node: Deno.lint.Identifier): boolean {
  const { parent } = node;
  if (parent.type === "MemberExpression") return !parent.computed && parent.property === node;
  if (parent.type === "TSQualifiedName") return parent.right === node;
  return "key" in parent && parent.key === node && !("computed" in parent && parent.computed);
}

/** The dotted name of an expression, without `globalThis`: `Date.now`. Unnamed parts are empty. */
function nameOf(expression: Node): string {
  const node = unwrapped(expression);
  if (node.type === "Identifier") return node.name;
  return node.type === "MemberExpression" ? joined(nameOf(node.object), propertyOf(node)) : "";
}

function joined(object: string, property: string): string {
  return GLOBAL_OBJECTS.has(object) ? property : `${object}.${property}`;
}

function propertyOf({ computed, property }: Deno.lint.MemberExpression): string {
  if (computed) return stringOf(property);
  return property.type === "Identifier" || property.type === "PrivateIdentifier" ? property.name : "";
}

function keyOf({ computed, key }: Deno.lint.Property): string {
  return !computed && key.type === "Identifier" ? key.name : stringOf(key);
}

function stringOf(node: Node): string {
  return node.type === "Literal" && typeof node.value === "string" ? node.value : "";
}

/** The members of an object literal; none of anything else. */
function membersOf(expression: Node): Deno.lint.Property[] {
  const node = unwrapped(expression);
  return node.type === "ObjectExpression" ? node.properties.filter((member) => member.type === "Property") : [];
}

/** `kv`, `deps.kv`, `this.#kv`, `kv.atomic().check(…)`. */
function isStore(expression: Node): boolean {
  const node = unwrapped(expression);
  if (node.type === "Identifier") return STORE_NAMES.has(node.name);
  if (node.type === "MemberExpression") return STORE_NAMES.has(propertyOf(node));
  if (node.type !== "CallExpression") return false;
  const callee = unwrapped(node.callee);
  return isStore(callee) || (callee.type === "MemberExpression" && isStore(callee.object));
}

/** `["agents", id]`, or a list that has such a key. */
function isLiteralKey(expression: Node): boolean {
  const node = unwrapped(expression);
  if (node.type !== "ArrayExpression") return false;
  const [first] = node.elements;
  return first?.type === "TemplateLiteral" || (first?.type === "Literal" && typeof first.value === "string") ||
    node.elements.some(isLiteralKey);
}

/** An expression without `?.`, `!`, `as` and `satisfies`. */
function unwrapped(node: Node): Node {
  switch (node.type) {
    case "ChainExpression":
    case "TSNonNullExpression":
    case "TSAsExpression":
    case "TSSatisfiesExpression":
      return unwrapped(node.expression);
    default:
      return node;
  }
}

function projectPath(filename: string): string {
  const path = slashed(filename);
  return path.startsWith(ROOT) ? path.slice(ROOT.length) : path;
}

function slashed(path: string): string {
  return path.replaceAll("\\", "/");
}
