/** A server, the person who runs it, and an agent that is connected. */
import { type ChildProcess, within } from "../support/process.ts";
import { type Person, START_MS } from "./machine_person.ts";

export interface Team {
  person: Person;
  agent: string;
  /** How peers of the other server see the agent. */
  alias: string;
  serve: string[];
}

/** Starts a server, makes its person the admin with an agent, and connects that. */
export async function openTeam(
  { person, agent, serve }: Team,
): Promise<{ server: ChildProcess; connector: ChildProcess }> {
  const server = person.start([...serve, "--store", `${person.folder}/svc.kv`]);
  await within(START_MS, "the server listens", server.stdout.match(/^listening on /m));
  const [, bootstrap = ""] = await within(START_MS, "the command", server.stdout.match(/svc (admin bootstrap .*)\n/));
  await person.svc(...bootstrap.split(" "));
  await person.svc("agent", "create", agent);
  return { server, connector: await connectAgent(person, agent) };
}

export function connectAgent(person: Person, agent: string): Promise<ChildProcess> {
  return person.connect(["connector", "start", agent, "--inbox"]);
}
