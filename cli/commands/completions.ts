/**
 * `svc completions`: prints shell completion scripts, made from the command table. They complete commands, options and
 * their fixed values, the agents on this machine and the aliases of their peers, and never call svc.
 */
import { didYouMean } from "../../shared/did_you_mean.ts";
import {
  type ArgSpec,
  beginsWith,
  type Command,
  command,
  type Completion,
  GLOBAL_OPTIONS,
  type Groups,
  type OptionSpec,
} from "../command_line/command.ts";
import { CliError } from "../errors.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

/** Returns the command. `commands` is a function, because the list that it returns contains this command. */
export const completionCommand = (commands: () => Promise<readonly Command[]>, groups: Groups): Command =>
  command({
    path: ["completions"],
    summary: "Print a completion script for your shell",
    details: ["For bash, make the folder first if it is missing: mkdir -p ~/.local/share/bash-completion/completions"],
    args: { shell: { summary: `One of ${SHELLS.join(", ")}`, complete: SHELLS } },
    examples: {
      "svc completions bash >~/.local/share/bash-completion/completions/svc": "Install for bash; active in new shells",
      "svc completions zsh >>~/.zshrc": "Install for zsh",
      "svc completions fish >~/.config/fish/completions/svc.fish": "Install for fish",
    },
    async run(ctx, { args }) {
      const shell = SHELLS.find((known) => known === args.shell);
      if (shell === undefined) {
        throw new CliError("CLI_USAGE", `There is no completion for ${args.shell}.${didYouMean(args.shell, SHELLS)}`);
      }
      const script = completionScript(shell, await commands(), groups);
      ctx.out.result({ shell, script }, script.split("\n"));
    },
  });

/** A position on the command line: after a group of commands, or after a command. */
interface Place {
  /** The words so far, for example `agent auth`; may be empty. */
  path: string;
  words: [word: string, summary: string][];
  options: Readonly<Record<string, OptionSpec>>;
  first?: ArgSpec | undefined;
}

/**
 * Prints the aliases in `peers.json`, which is written with one member per line. A peer that is gone or removed has no
 * pair, so it is left out. So is an alias with characters that a shell expands, because completion would run them.
 */
const ALIASES = `awk '/^  "/ { split($0, part, "\\""); alias = part[2] } /^    "(gone|removed)": true/ { alias = "" }` +
  ` /^  [}]/ && alias ~ /^[A-Za-z0-9._-]+$/ { print alias }'`;

/** The beginning of each script, by which `svc uninstall` recognises it. */
export const COMPLETION_START = "# Completion of svc, made by: svc completions";

export function completionScript(shell: (typeof SHELLS)[number], commands: readonly Command[], groups: Groups): string {
  const places = allPlaces(commands, groups);
  if (shell === "fish") return fishScript(places);
  // zsh can run bash completion functions.
  const forZsh = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n" +
    "autoload -Uz bashcompinit && bashcompinit\n";
  return shell === "bash" ? bashScript(places) : forZsh + bashScript(places);
}

function allPlaces(table: readonly Command[], summaries: Groups): Place[] {
  const prefixes = new Map(
    table.flatMap(({ path }) => path.map((_, i) => [path.slice(0, i).join(" "), path.slice(0, i)])),
  );
  const places = new Map([...prefixes].map(([path, prefix]): [string, Place] => {
    const below = table.filter((command) => command.path.length > prefix.length && beginsWith(command.path, prefix));
    const words = new Map(below.map((command) => {
      const here = command.path.slice(0, prefix.length + 1);
      const isWhole = command.path.length === here.length;
      return [here.at(-1) ?? "", isWhole ? command.summary : summaries[here.join(" ")] ?? ""];
    }));
    return [path, { path, words: [...words], options: GLOBAL_OPTIONS }];
  }));
  for (const { path: names, args, options } of table) {
    const path = names.join(" "), [first] = Object.values(args);
    // One place for a command that is also a group, such as `svc peers`, because bash takes the first of two cases.
    const words = places.get(path)?.words ?? [];
    places.set(path, { path, words, options: { ...options, ...GLOBAL_OPTIONS }, first });
  }
  return [...places.values()];
}

function bashScript(places: Place[]): string {
  const valued = new Set(places.flatMap(({ options }) => Object.keys(options).filter((name) => options[name]?.value)));
  const values = [...valued].flatMap((name) => bashValues(name, places));
  const known = places.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`);
  const cases = places.map(({ path, words, options, first: { complete, repeat } = {} }) =>
    `    "${path}")\n` +
    `      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "${
      Object.keys(options).map((name) => `--${name}`).join(" ")
    }" -- "$cur"))\n` +
    (words.length === 0 && complete === undefined
      ? `      fi ;;`
      : `      ${repeat ? "else" : "elif ((arguments == 0)); then"} ${
        bashWords(complete ?? [], words.map(([word]) => word))
      }; fi ;;`)
  );
  return `${COMPLETION_START}
_svc_folder() {
  local config="\${folder:-\${SVC_CONFIG_DIR:-\${XDG_CONFIG_HOME:-$HOME/.config}/svc}}"
  if [[ $OSTYPE == darwin* && -z "$folder\${SVC_CONFIG_DIR:-}\${XDG_CONFIG_HOME:-}" ]]; then
    config="$HOME/Library/Application Support/svc"
  fi
  [[ -n $folder || -n $profile ]] || profile="\${SVC_PROFILE:-}"
  [[ -z $profile || $profile == default ]] || config+="/profiles/$profile"
  printf '%s' "\${config/#\\~/$HOME}/agents"
}
_svc_agents() {
  command ls "$(_svc_folder)" 2>/dev/null
}
_svc_peers() {
  command find "$(_svc_folder)/\${agent:-\${SVC_AGENT:-}}" -maxdepth 2 -name peers.json -exec ${ALIASES} {} + 2>/dev/null
}
_svc_files() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -f -- "$cur"))
  compopt -o filenames 2>/dev/null
}
_svc() {
  # bash gives --agent=a as three words, zsh as one.
  local given=() before="" word i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}" before=""
    case "$word" in
      --*=*) given+=("\${word%%=*}" "\${word#*=}"); before="\${word%%=*}=" ;;
      =) ((i < COMP_CWORD)) || given+=("") ;;
      *) given+=("$word") ;;
    esac
  done
  _svc_given
  COMPREPLY=("\${COMPREPLY[@]/#/$before}")
}
_svc_given() {
  local cur prev place last=$((\${#given[@]} - 1)) arguments=0 folder="" profile="" agent=""
  cur="\${given[last]}"
  prev="\${given[last-1]}"
  place=""
  COMPREPLY=()
  for ((i = 1; i < last; i++)); do
    word="\${given[i]}"
    case "$word" in
      --config-dir) folder="\${given[++i]}"; continue ;;
      --profile) profile="\${given[++i]}"; continue ;;
      --agent) agent="\${given[++i]}"; continue ;;
      ${[...valued].map((name) => `--${name}`).join("|")}) ((i++)); continue ;;
      -*) continue ;;
    esac
    case "\${place:+$place }$word" in
      ${known.join("|")}) place="\${place:+$place }$word" ;;
      *) ((arguments++)) ;;
    esac
  done
  case "$place $prev" in
${values.join("\n")}
    ${[...valued].map((name) => `*" --${name}"`).join("|")}) return ;;
  esac
  case "$place" in
${cases.join("\n")}
  esac
}
complete -F _svc svc
`;
}

/** The case lines for the values of an option: one for each command whose values differ, then one for all others. */
function bashValues(name: string, places: Place[]): string[] {
  const found = places.flatMap(({ path, options }) => {
    const complete = options[name]?.complete;
    return complete === undefined ? [] : [{ path, words: bashWords(complete) }];
  });
  const usual = found.at(-1)?.words;
  if (usual === undefined) return [];
  const others = found.filter(({ words }) => words !== usual);
  return [
    ...others.map(({ path, words }) => `    "${path} --${name}") ${words}; return ;;`),
    `    *" --${name}") ${usual}; return ;;`,
  ];
}

function bashWords(completion: Completion, subcommands: readonly string[] = []): string {
  if (completion === "files") return "_svc_files";
  const words = typeof completion === "string" ? [`$(_svc_${completion})`] : completion;
  return `COMPREPLY=($(compgen -W "${[...subcommands, ...words].join(" ")}" -- "$cur"))`;
}

function fishScript(places: Place[]): string {
  const lines = places.flatMap(({ path, words, options, first: { complete } = {} }) => {
    const here = `-n '__svc_at "${path}"'`;
    return [
      ...words.map(([word, summary]) => `complete -c svc ${here} -f -a ${word} -d ${quoted(summary)}`),
      ...Object.entries(options).map(([name, spec]) =>
        `complete -c svc ${here} -l ${name}${fishValue(spec)} -d ${quoted(spec.summary)}`
      ),
      ...(complete === undefined ? [] : [`complete -c svc ${here} ${fishWords(complete)}`]),
    ];
  });
  const known = places.filter(({ path }) => path !== "").map(({ path }) => quoted(path));
  return `${COMPLETION_START} fish
function __svc_folder
    set -l config ~/.config/svc
    test (uname) = Darwin; and set config ~/Library/Application\\ Support/svc
    set -q XDG_CONFIG_HOME; and set config $XDG_CONFIG_HOME/svc
    set -q SVC_CONFIG_DIR; and set config $SVC_CONFIG_DIR
    set -l folder (__svc_given config-dir | string replace -r '^~' ~)
    set -l profile (__svc_given profile)
    test -z "$folder$profile"; and set profile $SVC_PROFILE
    test -n "$folder"; and set config $folder
    test -n "$profile" -a "$profile" != default; and set config $config/profiles/$profile
    echo $config/agents
end
function __svc_given
    set -l words (commandline -opc | string replace -r -- '^(--[^=]+)=' '$1\\n' | string split '\\n')
    set -l at (contains -i -- --$argv[1] $words); and echo $words[(math $at + 1)]
end
function __svc_agents
    command ls (__svc_folder) 2>/dev/null
end
function __svc_peers
    set -l agent (__svc_given agent) $SVC_AGENT
    command find (__svc_folder)"/$agent[1]" -maxdepth 2 -name peers.json -exec ${ALIASES} '{}' + 2>/dev/null
end
function __svc_at
    set -l place ''
    for word in (commandline -opc)
        set -l next (string trim -- "$place $word")
        contains -- "$next" ${known.join(" ")}; and set place $next
    end
    test "$place" = "$argv[1]"
end
complete -c svc -f
${lines.join("\n")}
`;
}

function fishValue({ value, complete }: OptionSpec): string {
  return value === undefined ? "" : complete === undefined ? " -x" : ` -r ${fishWords(complete)}`;
}

function fishWords(completion: Completion): string {
  if (completion === "files") return "-F";
  const words = typeof completion === "string" ? `(__svc_${completion})` : completion.join(" ");
  return `-f -a ${quoted(words)}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
