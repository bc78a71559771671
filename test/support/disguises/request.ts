interface RawRequest {
  readonly method?: string;
  readonly target?: string;
  /**
   * Header lines. A Host header is added and, if no header defines the framing, a Content-Length
   * header.
   */
  readonly headers?: readonly string[];
  readonly body?: string | Buffer;
}

/** Returns one HTTP/1.1 request as bytes. */
export function raw({ method = 'GET', target = '/', headers = [], body = '' }: RawRequest): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body, 'utf8') : body;
  const isFramed = headers.some((line) => /^(content-length|transfer-encoding):/i.test(line));
  const framing = isFramed || bytes.length === 0 ? [] : [`Content-Length: ${bytes.length}`];
  const hasHost = headers.some((line) => /^host:/i.test(line));
  const host = hasHost ? [] : ['Host: api.example.com'];
  const head = [`${method} ${target} HTTP/1.1`, ...host, ...headers, ...framing, '', ''];
  return Buffer.concat([Buffer.from(head.join('\r\n'), 'latin1'), bytes]);
}

export const jsonType = 'Content-Type: application/json';
export const formType = 'Content-Type: application/x-www-form-urlencoded';

/** Returns a POST request with a JSON body. */
export function post(target: string, body: unknown, headers: readonly string[] = []): Buffer {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return raw({ method: 'POST', target, headers: [jsonType, ...headers], body: text });
}
