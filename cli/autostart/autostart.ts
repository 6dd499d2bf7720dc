/** Types of an autostart service (D-91): the command to run, and the machine that runs it. */

export const SERVICE_SYSTEMS = ["launchd", "systemd"] as const;
export type ServiceSystem = (typeof SERVICE_SYSTEMS)[number];

/** The agent of a service; `null`: all agents of this machine (D-123). */
export type ServiceAgent = string | null;

/** The command of a service. Contains no secret, because other users can read it. */
export interface ServiceSpec {
  agentName: ServiceAgent;
  /** Program and arguments. */
  command: readonly string[];
  /** File for the output of the program under launchd. */
  logPath: string;
}

/** The result of a program. */
export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

/** The machine, injected. */
export interface Host {
  home: string;
  configHome: string;
  uid: number | null;
  /** Runs a program; `null` when it is not installed. */
  run(program: string, args: readonly string[]): Promise<Ran | null>;
}
