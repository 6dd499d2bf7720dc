/** The type of an exported schema (D-236): it names the value that the schema yields, so that no type is inferred. */
import type { ZodType } from "zod";

/**
 * A zod schema that yields `T` and accepts `I`. Not a documented type of the package: the members are zod's.
 *
 * @internal
 */
export interface Shape<T, I = unknown> extends ZodType<T, I> {}
