export interface OutsideOptions {
  /** PEM file with a key and a certificate. */
  readonly identity: string;
  /** Ports of the host, and the Unix sockets to which their connections are forwarded. */
  readonly bridges: readonly { readonly port: number; readonly socket: string }[];
}

/** The port on which the server speaks first. */
export const mailPort = 2525;
export const greeting = '220 mail.example ready\r\n';
