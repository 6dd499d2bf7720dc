/** Runs a TLS front on another machine: `<folder of the authority> <host> <port> <port behind it> [name]`. */
import { PrivateAuthority, TlsFront } from "./private_authority.ts";

const [folder = "", host = "", port = "", behind = "", name] = Deno.args;
const authority = await PrivateAuthority.at(folder);
const certificate = await authority.issue(`front-${host}`, name === undefined ? `IP:${host}` : `DNS:${name}`);
const front = new TlsFront(certificate, () => Number(behind), host, Number(port));
console.log(`ready on ${front.port}`);
