/** Shows what a name reaches that leads elsewhere between the look and the call (D-282): a handshake, and no byte of HTTP. */
import { assert, assertEquals } from "@std/assert";
import { ROOT } from "../support/child_command.ts";

const NAME = "rebind.example";
const INSIDE = ["-nm", "sh", "-ec", 'ip link set lo up; mount --bind "$1" /etc/hosts; shift; exec "$@"', "sh"];
const { success: hasNamespaces } = await new Deno.Command("unshare", { args: ["-nm", "ip", "link"] }).output()
  .catch(() => ({ success: false }));

Deno.test({
  name: "a name that leads inside after the look gets the start of a handshake, and the caller learns nothing",
  ignore: !hasNamespaces,
  async fn() {
    const hosts = await Deno.makeTempFile();
    await Deno.writeTextFile(hosts, `127.0.0.1 localhost ${NAME}\n`);
    const program = ["run", "-q", "--no-prompt", "--no-check", "-A", "--unstable-kv"];
    const { stdout, stderr } = await new Deno.Command("unshare", {
      args: [...INSIDE, hosts, Deno.execPath(), ...program, `${ROOT}/tests/support/rebinding_program.ts`, NAME],
    }).output();
    await Deno.remove(hosts);
    const text = new TextDecoder().decode(stdout);
    assert(text !== "", new TextDecoder().decode(stderr));
    const { arrived: [hello, ...others], ended } = JSON.parse(text);
    assertEquals([ended, others.length, hello.charCodeAt(0)], ["PROXY_AUTH_DEPENDENCY_UNAVAILABLE", 0, 0x16]);
    assert(hello.includes(NAME) && !/GET|HTTP\/1|svc-keys/.test(hello), hello);
  },
});
