/** The rows of the bench in the order of the table: a name and a measurement each. */
import type { Outcome } from "./figures.ts";
import { ask } from "./rows/ask.ts";
import { burst } from "./rows/burst.ts";
import { connectors } from "./rows/connector.ts";
import * as crl from "./rows/crl.ts";
import * as expiry from "./rows/expiry.ts";
import * as growth from "./rows/growth.ts";
import * as memory from "./rows/memory.ts";
import * as messages from "./rows/messages.ts";
import * as overload from "./rows/overload.ts";
import { network } from "./rows/network.ts";
import { send } from "./rows/send.ts";
import * as start from "./rows/start.ts";
import { storm } from "./rows/storm.ts";
import * as store from "./rows/store.ts";
import * as trust from "./rows/trust.ts";
import type { World } from "./world.ts";

export interface Row {
  name: string;
  measure(world: World): Promise<Outcome>;
}

export const ROWS: readonly Row[] = [
  { name: "floor: a message, not stored", measure: messages.floor },
  { name: "service: a message, everything on", measure: messages.together },
  { name: "two processes: registry and proxy apart", measure: messages.apart },
  { name: "burst: many messages at once to one recipient", measure: burst },
  { name: "network: instances on denokv behind a delay", measure: network },
  { name: "storm: an instance is lost", measure: storm },
  { name: "growth: many agents, ten minutes of nonces", measure: growth.growth },
  { name: "lasting: as fast at the end", measure: growth.lasting },
  { name: "expiry: while records end, and after a stop", measure: expiry.expiry },
  { name: "store: a bare commit", measure: store.commit },
  { name: "revocation list", measure: crl.list },
  { name: "trust changes: after none and after many", measure: trust.changes },
  { name: "overload: greedy sender beside idle sockets", measure: overload.greedySender },
  { name: "overload: bad proofs", measure: overload.badProofs },
  { name: "overload: slow reader", measure: overload.slowReader },
  { name: "memory: idle sockets", measure: memory.idleSocket },
  { name: "start: server", measure: start.server },
  { name: "start: command from its sources", measure: start.command },
  { name: "start: compiled program", measure: start.program },
  { name: "send: compiled program without a connector", measure: send },
  { name: "ask: a question and its answer through the tools", measure: ask },
  { name: "connector: a message of a ticket peer and of a contact", measure: connectors },
];
