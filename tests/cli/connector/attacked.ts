/** A connector whose frames a relay changes. */
import { assert, assertEquals } from "@std/assert";
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import type { RequestParts, World } from "../../support/world.ts";
import { story } from "./bench.ts";

/** A bench whose frames a test may change. */
export async function attacked(world: World, more: Parameters<typeof story>[1] = {}) {
  let tamper: (frame: DeliverFrame) => DeliverFrame = (frame) => frame;
  const frames: DeliverFrame[] = [];
  const all = await story(world, {
    tamper: (frame) => {
      frames.push(frame);
      return tamper(frame);
    },
    ...more,
  });
  const answer = async (change: typeof tamper, parts: RequestParts = {}) => {
    tamper = change;
    const { delivered, reason } = await (await world.message(all.a, all.b, parts)).json();
    tamper = (frame) => frame;
    return delivered ? "taken" : reason;
  };
  const last = () => {
    const frame = frames.at(-1);
    assert(frame);
    return frame;
  };
  /** A frame that the connector has taken. */
  const taken = async (parts: RequestParts = {}) => {
    assertEquals(await answer((frame) => frame, parts), "taken");
    return last();
  };
  /** A frame that the connector never got. */
  const lost = async () => {
    await answer((frame) => ({ ...frame, toAgentDid: frame.fromAgentDid }));
    return last();
  };
  return { ...all, answer, taken, lost };
}

export const TAKEN = { accepted: true };
export const refused = (reason: string) => ({ accepted: false, reason });
