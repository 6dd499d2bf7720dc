/** Certificates of a private authority, created with openssl, and a TLS front for a server that uses plain HTTP. */

/** Whether this machine has openssl. Tests that need it are skipped otherwise. */
export const HAS_OPENSSL = await new Deno.Command("openssl", { args: ["version"] }).output()
  .then(({ success }) => success, () => false);

export interface Certificate {
  cert: string;
  key: string;
}

const KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/** An authority with its files in a folder. */
export class PrivateAuthority {
  private constructor(readonly folder: string) {}

  static async make(folder: string): Promise<PrivateAuthority> {
    const authority = new PrivateAuthority(folder);
    await authority.#openssl(["req", "-x509", ...KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test"]);
    return authority;
  }

  /** The authority of a folder, made when there is none. */
  static async at(folder: string): Promise<PrivateAuthority> {
    const isThere = await Deno.stat(`${folder}/ca.pem`).then(() => true, () => false);
    return isThere ? new PrivateAuthority(folder) : await PrivateAuthority.make(folder);
  }

  /** Path of the authority's own certificate. */
  get path(): string {
    return `${this.folder}/ca.pem`;
  }

  /**
   * Issues a certificate for alternative names such as `DNS:localhost`. A certificate with `days` below 0 has expired.
   */
  async issue(name: string, altNames: string, days = 2): Promise<Certificate> {
    const [key, request, cert] = [`${name}.key`, `${name}.csr`, `${name}.pem`];
    await this.#openssl(["req", ...KEY, "-keyout", key, "-out", request, "-subj", "/CN=x"]);
    await Deno.writeTextFile(`${this.folder}/${name}.ext`, `subjectAltName=${altNames}\nbasicConstraints=CA:FALSE\n`);
    const signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", `${name}.ext`];
    await this.#openssl(["x509", "-req", "-in", request, ...signer, "-out", cert, "-days", String(days)]);
    const read = (file: string) => Deno.readTextFile(`${this.folder}/${file}`);
    return { cert: await read(cert), key: await read(key) };
  }

  async #openssl(args: string[]): Promise<void> {
    const { success, stderr } = await new Deno.Command("openssl", { args, cwd: this.folder }).output();
    if (!success) throw new Error(`openssl ${args[0]} failed: ${new TextDecoder().decode(stderr)}`);
  }
}

/** Terminates TLS and passes the bytes on to a port of this machine, WebSockets included. */
export class TlsFront implements AsyncDisposable {
  readonly #listener: Deno.TlsListener;
  readonly #passing = new Set<Promise<unknown>>();
  readonly #open = new Set<Deno.Conn>();
  readonly #accepting: Promise<void>;

  constructor(certificate: Certificate, readonly target: () => number, hostname = "127.0.0.1", port = 0) {
    this.#listener = Deno.listenTls({ hostname, port, ...certificate });
    this.#accepting = this.#accept();
  }

  get port(): number {
    return (this.#listener.addr as Deno.NetAddr).port;
  }

  async #accept(): Promise<void> {
    while (true) {
      let connection: Deno.TlsConn;
      try {
        connection = await this.#listener.accept();
      } catch (error) {
        if (error instanceof Deno.errors.BadResource) return;
        continue;
      }
      const passing = this.#pass(connection).finally(() => this.#passing.delete(passing));
      this.#passing.add(passing);
    }
  }

  async #pass(front: Deno.TlsConn): Promise<void> {
    this.#open.add(front);
    try {
      await front.handshake();
      const back = await Deno.connect({ hostname: "127.0.0.1", port: this.target() });
      this.#open.add(back);
      await Promise.all([front.readable.pipeTo(back.writable), back.readable.pipeTo(front.writable)]);
    } catch {
      // The client refused the certificate, or an end closed the connection.
    } finally {
      this.#open.delete(front);
      try {
        front.close();
      } catch { /* closed by its stream */ }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#open) {
      try {
        connection.close();
      } catch { /* closed by its stream */ }
    }
    await this.#accepting;
    await Promise.all(this.#passing);
  }
}
