/** Runs a TLS front on another machine: `<folder of the authority> <host> <port> <port behind it>`. */
import { PrivateAuthority, TlsFront } from "./private_authority.ts";

const [folder = "", host = "", port = "", behind = ""] = Deno.args;
const certificate = await (await PrivateAuthority.make(folder)).issue("front", `IP:${host}`);
const front = new TlsFront(certificate, () => Number(behind), host, Number(port));
console.log(`ready on ${front.port}`);
