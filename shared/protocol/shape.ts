/**
 * The type of an exported schema (D-236): it names the value that it yields, so that no type has to be inferred from the
 * schema's own definition.
 */
import type * as z from "zod";

/** A schema that yields `T`; `I` is what it takes. */
export interface Shape<T, I = unknown> extends z.ZodType<T, I> {}
