/** A shape parses to its named type and can be part of another schema (D-236). */
import { assertEquals } from "@std/assert";
import * as z from "zod";
import type { Shape } from "../../../shared/protocol/shape.ts";

interface Point {
  x: number;
}

Deno.test("a shape parses to its named type, refuses other values and composes", () => {
  const Point: Shape<Point> = z.object({ x: z.number() });
  const Line = z.object({ from: Point });
  const point: Point = Point.parse({ x: 1, y: 2 });
  assertEquals(point, { x: 1 });
  const line: { from: Point } = Line.parse({ from: { x: 1 } });
  assertEquals(line.from, point);
  assertEquals(Point.safeParse({ x: "1" }).success, false);
});
