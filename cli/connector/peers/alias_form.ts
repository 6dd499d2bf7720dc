/** The form of an alias that a person gives. Apart from peers.ts, which would load the parsers of schemas into each command. */
export const ALIAS = /^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/;

/** The same, for texts. */
export const ALIAS_FORM = "1 to 32 of A-Z, a-z, 0-9, ., _ and -, with a letter or a digit first";
