/** Where an entry of svc stands in a configuration file, and why a file cannot be changed. Types only, but for the error. */

/** A member of nested objects, or an element of an array in them. */
export interface Place {
  /** Names of the objects from the outermost one. The last name is that of the entry, or of the array with the entry. */
  path: readonly string[];
  /** Returns true for the entry in the array that `path` names. Absent: the entry is a member. */
  isEntry?: (element: unknown) => boolean;
}

/** What a text has at a place. */
export interface Found {
  /** The entry; `undefined` when there is none. */
  entry: unknown;
  /** How many of the objects and arrays around the entry an entry would add. */
  missing: number;
}

/** Reads and changes the entry in one kind of file. Everything else in the text stays as it is. */
export interface TextEditor {
  /** @throws {NotEditableError} when the text is not valid, or nested too deep */
  find(text: string, place: Place): Found;
  /** Returns the text with the entry, which replaces the present one. @throws {NotEditableError} */
  withEntry(text: string, place: Place, value: object): string;
  /**
   * Returns the text without the entry.
   *
   * @param made number of the innermost objects around the entry that are removed too when they are empty then
   * @throws {NotEditableError}
   */
  withoutEntry(text: string, place: Place, made: number): string;
  /** The entry as the part of a file that a person can paste. */
  fragment(place: Place, value: object): string;
}

/** The file is not changed; the message completes "the file cannot be changed: ". */
export class NotEditableError extends Error {
  override name = "NotEditableError";
}
