/**
 * Each block of commands in README.md and docs/operations.md is run by a test that is named here, or has the reason why
 * none runs it. Without this table a block could be wrong until a reader types it.
 */
import { assert, assertEquals } from "@std/assert";
import { exists, readText } from "./markdown.ts";

/** File and beginning of the name of the test that runs a block. */
type Run = readonly [file: string, name: string];
/** Beginning of a block, and its test, or a sentence that says why there is none. */
type Row = readonly [start: string, by: Run | string];

const STORY: Run = ["tests/e2e/readme_story_test.ts", "two people ask and answer with the lines of the README"];
const NETWORK: Run = ["tests/soak/two_machines_test.ts", "two machines in a local network get from the lines"];
const SERVERS: Run = ["tests/e2e/two_servers_test.ts", "two servers of one machine"];
const FRONT: Run = ["tests/soak/two_machines_test.ts", "two machines with a front for TLS"];
const DEMO: Run = ["tests/e2e/demo_test.ts", "deno task demo shows every step"];
const PEOPLE: Run = ["tests/cli/account/operations_page_test.ts", "each command of operations.md for people"];
const INSTALLING: Run = ["tests/soak/cli_package_test.ts", "each command of the section on installing"];
const COMMANDS: Run = ["tests/e2e/documents_test.ts", "the commands of README and operations.md"];

const TWO: Run = ["tests/soak/two_instances_test.ts", "two instances and a balancer start from the lines"];
const LITESTREAM: Run = ["tests/soak/litestream_test.ts", "a store restored from Litestream"];
const UNRELEASED = "listed in Never tried: nothing was released";

const BLOCKS: Readonly<Record<string, readonly Row[]>> = {
  "README.md": [
    ["npx -y deno@2.9.6 task demo\n", DEMO],
    ["npx -y deno@2.9.6 task ok\n", "is the gate, which runs this test"],
    ["svc() { npx -y --prefer-offline deno@2.9.6 task --quiet cli", COMMANDS],
    ["npx -y deno@2.9.6 task pack\n", "the block of operations.md is run, which only adds --ignore-scripts"],
    ["npx -y deno@2.9.6 task dev\n", COMMANDS],
    ["KV_URL=.data/story.kv ", COMMANDS],
    ["svc() { SVC_CONFIG_DIR=.data/ada ", STORY],
    ["svc() { SVC_CONFIG_DIR=.data/bob ", STORY],
    ["svc connector start\n", STORY],
    ["svc mcp install alpha ", "writes into files of six programs; tests/cli/hosts runs the command for each of them"],
    ["svc serve --behind-proxy ", FRONT],
    ["svc serve --host 0.0.0.0 ", NETWORK],
    ["svc invite create --pair\n", NETWORK],
    ['svc join "<link>" --start --agent beta\n', NETWORK],
    ["svc send beta@b.example --wait ", SERVERS],
  ],
  "docs/operations.md": [
    ["npx -y deno@2.9.6 task pack\n", INSTALLING],
    ["npx @svc/svc demo\n", UNRELEASED],
    ["npx -y deno@2.9.6 task compile\n", INSTALLING],
    ["curl --proto ", UNRELEASED],
    ["install -D -m 755 dist/svc image/", "listed in Never tried: needs Docker"],
    ["npx -y deno@2.9.6 task dev\n", COMMANDS],
    ["npx -y deno@2.9.6 task start\n", COMMANDS],
    ["DENO_NO_UPDATE_CHECK=1 npx ", COMMANDS],
    ["svc serve --public-url https://svc.example ", "the block of README with the same two options is run"],
    ["svc admin bootstrap --registry-url http://127.0.0.1:8787 --bootstrap-secret - <secret.txt", COMMANDS],
    ["svc admin open ", COMMANDS],
    ["svc admin people list ", PEOPLE],
    ["svc admin overview ", PEOPLE],
    ["prometheus --config.file", "its ports are fixed; tests/soak/prometheus_test.ts runs it with the same files"],
    ["(flock -n 9", COMMANDS],
    ["npx -y deno@2.9.6 task store inspect", COMMANDS],
    ["(umask 077; sqlite3 ", COMMANDS],
    ["go install github.com/benbjohnson/litestream", "builds another project for minutes"],
    ["umask 077\ncat > .data/litestream.yml ", LITESTREAM],
    ["umask 077\nlitestream restore ", LITESTREAM],
    ["KV_URL=.data/new.kv ", COMMANDS],
    ["KV_URL=https://<address> ", "needs a store behind TLS, which Never tried lists"],
    ["npx -y deno@2.9.6 task store recover\n", COMMANDS],
    ["svc api-key list\n", COMMANDS],
    ["svc admin keys rotate\n", COMMANDS],
    ["npx -y deno@2.9.6 eval ", COMMANDS],
    ["export REGISTRY_URL=http://127.0.0.1:8787 PROXY_URL=http://127.0.0.1:8788\nexport BOOTSTRAP_SECRET=", COMMANDS],
    ["svc admin bootstrap --registry-url http://127.0.0.1:8787 --bootstrap-secret - --show-service", COMMANDS],
    ["export REGISTRY_URL=http://127.0.0.1:8787 PROXY_URL=http://127.0.0.1:8788\nexport REGISTRY_INTERNAL", COMMANDS],
    ["svc admin service list\n", COMMANDS],
    ["svc admin service create proxy-2\n", COMMANDS],
    ["umask 077\nmkdir -p .data\ndenokv --sqlite-path ", TWO],
    ["export DENO_KV_ACCESS_TOKEN=a-token-of-24-characters KV_URL", TWO],
    ["export DENO_KV_ACCESS_TOKEN=a-token-of-24-characters KV_URL", TWO],
    ["cat > .data/two.Caddyfile ", TWO],
    ["echo a-secret-for-a-first-try ", TWO],
    ["cargo install denokv ", "builds another project for many minutes, and needs root"],
  ],
};

for (const [document, rows] of Object.entries(BLOCKS)) {
  Deno.test(`each block of commands in ${document} is run by a test or has a reason`, async () => {
    const blocks = [...(await readText(document)).matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
    assertEquals(
      blocks.map((block, i) => block.startsWith(rows[i]?.[0] ?? "\0") ? "in its place" : block),
      rows.map(() => "in its place"),
    );
    for (const [, by] of rows) {
      if (typeof by === "string") continue;
      const [file, name] = by;
      assert(await exists(file), file);
      assert((await readText(file)).includes(name), `${file} has no test "${name}"`);
    }
  });
}
