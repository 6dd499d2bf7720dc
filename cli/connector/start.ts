/**
 * `svc connector start`: runs the connector of an agent and shows it on the terminal, until it ends or a signal stops
 * it. agent_connector.ts starts the connector itself.
 */
import type { Context } from "../context.ts";
import { EXIT } from "../errors.ts";
import { type RunningConnector, startAgentConnector } from "./agent_connector.ts";
import { viewOf } from "./console_view.ts";
import { reportDefects } from "./defects.ts";
import type { EmitEvent } from "./events.ts";
import { pairingHint, ticketLines } from "./local_api/pairing_hint.ts";
import { checkSave, givesRuntime, type StartOptions } from "./start_options.ts";
import { statusLine } from "./status.ts";

const SAVE_HINT = "          To keep these runtime settings for later starts: add --save.";

/** Registers a function that stops the connector. Returns a function that removes it. */
export type OnStop = (stop: () => void) => () => void;

/** Runs the connector of an agent until it is stopped or fails. Returns the exit code. */
export async function startConnector(
  ctx: Context,
  name: string,
  options: StartOptions,
  onStop: OnStop,
): Promise<number> {
  checkSave(options);
  let running: RunningConnector | null = null;
  const view = viewOf({
    clock: ctx.clock,
    terminal: ctx.terminal,
    json: ctx.out.json,
    line: () => running && statusLine(running.connector.status()),
  });
  const tell: EmitEvent = (event, fields) => view.event(event, fields);
  const onTicket = (ticket: string, until: string) => void ticketLines(ticket, until).then((lines) => view.show(lines));
  let isStopped = false;
  const forget = onStop(() => {
    isStopped = true;
    void running?.stop();
  });
  const endReports = reportDefects(tell);
  try {
    running = await startAgentConnector(ctx, name, options, { tell, onTicket });
    if (isStopped) void running.stop();
    view.show([...pairingHint(running.folder), ...givesRuntime(options) && !options.save ? [SAVE_HINT] : []]);
    const why = await running.ended;
    if (why !== null) throw why;
    return EXIT.done;
  } finally {
    forget();
    endReports();
    view.stop();
  }
}
