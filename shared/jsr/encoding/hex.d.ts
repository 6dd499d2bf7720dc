export declare function encodeHex(data: ArrayBuffer | Uint8Array | string): string;
export declare function decodeHex(text: string): Uint8Array<ArrayBuffer>;
