/** The README's lines for a second machine, with plain HTTP; tests/soak has them on two machines, and with TLS. */
import { freePort, tempFolder } from "../support/process.ts";
import { Person } from "./machine_person.ts";
import { secondMachine, wordsOf } from "./second_machine.ts";
import { longTest } from "../support/trials.ts";

longTest("two people get from the lines of the README for a second machine to a receipt", async () => {
  await using folder = await tempFolder();
  const [address, port] = ["127.0.0.1", String(freePort())];
  const machine = { address, program: <P>(program: P) => program };
  const words = wordsOf("serve --host", { address }).map((word) => word.replace(":8787", `:${port}`));
  await secondMachine(new Person(machine, `${folder.path}/ada`), new Person(machine, `${folder.path}/bob`), {
    serve: [...words, "--port", port],
    added: ["--allow-insecure"],
  });
});
