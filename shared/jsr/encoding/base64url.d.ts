export declare function encodeBase64Url(data: ArrayBuffer | Uint8Array | string): string;
export declare function decodeBase64Url(text: string): Uint8Array<ArrayBuffer>;
