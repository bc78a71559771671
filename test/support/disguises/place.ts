/** Marks the denied call: no bytes that reach an upstream may contain this value. */
export const marker = '90417';

/** The destination of a denied call, as parts from which disguises are built. */
export interface Place {
  readonly host: string;
  readonly port: number;
  /** `host:port`. */
  readonly authority: string;
  readonly path: string;
  /** All headers except Host, the empty line, and the body of the denied call. */
  readonly rest: string;
}

export const deniedBody = `{"amount":${marker}}`;
export const smallBody = '{"amount":50}';

export function placeAt(port: number): Place {
  const path = '/v1/payments/pay_1/refund';
  const framing = `Content-Length: ${deniedBody.length}\r\n\r\n${deniedBody}`;
  const rest = `Content-Type: application/json\r\n${framing}`;
  return { host: '127.0.0.1', port, authority: `127.0.0.1:${port}`, path, rest };
}
