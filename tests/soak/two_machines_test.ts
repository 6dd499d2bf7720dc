/**
 * The README's lines for a second machine, typed on two machines: a server, and a laptop behind NAT, with plain HTTP in
 * a local network and with TLS of a private authority.
 */
import { Person, startFront } from "../e2e/machine_person.ts";
import { secondMachine, wordsOf } from "../e2e/second_machine.ts";
import { HAS_OPENSSL } from "../support/private_authority.ts";
import { freePort, tempFolder } from "../support/process.ts";
import { TwoMachines } from "../support/two_machines.ts";

Deno.test("two machines in a local network get from the lines of the README to a receipt", async () => {
  await using machines = await TwoMachines.open();
  await using folder = await tempFolder();
  const { server, laptop } = machines;
  // The port of the README is free on a machine of its own.
  const port = machines.kind === "one machine" ? String(freePort()) : "8787";
  const words = wordsOf("serve --host", { address: server.address }).map((word) => word.replace(":8787", `:${port}`));
  await secondMachine(new Person(server, `${folder.path}/ada`), new Person(laptop, `${folder.path}/bob`), {
    serve: [...words, "--port", port],
    added: ["--allow-insecure"],
  });
});

Deno.test({
  name: "two machines with a front for TLS of a private authority get to a receipt",
  ignore: !HAS_OPENSSL,
  async fn() {
    await using machines = await TwoMachines.open();
    await using folder = await tempFolder();
    const { server, laptop } = machines;
    const [port, behind] = [String(freePort()), String(freePort())];
    const authority = `${folder.path}/authority`;
    const [ada, bob] = [new Person(server, `${folder.path}/ada`), new Person(laptop, `${folder.path}/bob`)];
    await using _ = await startFront(ada, authority, port, behind);
    const serve = [...wordsOf("serve --behind-proxy", { name: `${server.address}:${port}` }), "--port", behind];
    await secondMachine(ada, bob, { serve, added: ["--ca", `${authority}/ca.pem`] });
  },
});
