// Hop-by-hop headers: those of RFC 9110 section 7.6.1, and headers that Connection should list but
// often does not.
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);
// Host and framing are set again for every hop; the sidecar responds to Expect itself.
const requestOwn = new Set(['host', 'content-length', 'expect']);
const hints = new Set(['action-passport', 'action-goal', 'action-idempotency-key']);
const responseRefused = new Set(['alt-svc', 'alt-used']);

function isSallyportHeader(name: string): boolean {
  return name.startsWith('sallyport-') || name.startsWith('proxy-');
}

/**
 * Returns the request headers that may be sent upstream, as alternating names and values. Removes
 * hop-by-hop headers, headers that `Connection` lists, `Host` and framing, `Expect`, `Proxy-*`, the
 * agent's hints, and `Sallyport-*`.
 */
export function outboundHeaders(raw: readonly string[]): string[] {
  return endToEnd(raw, (lower) => requestOwn.has(lower) || hints.has(lower));
}

/**
 * Returns the response headers that may reach the agent. Removes hop-by-hop headers, headers that
 * `Connection` lists, `Alt-Svc` (which would let the agent bypass the proxy), `Proxy-*` and
 * `Sallyport-*`. Also removes `Content-Length` if it does not determine the length (RFC 9112
 * section 6.2).
 */
export function inboundHeaders(raw: readonly string[], lengthKnown: boolean): string[] {
  return endToEnd(
    raw,
    (lower) => responseRefused.has(lower) || (lower === 'content-length' && !lengthKnown),
  );
}

/** Keeps end-to-end headers that are not Sallyport's own and not refused in this direction. */
function endToEnd(raw: readonly string[], isRefused: (lower: string) => boolean): string[] {
  const named = namedByConnection(raw);
  const kept: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? '';
    const lower = name.toLowerCase();
    const removed =
      hopByHop.has(lower) ||
      isRefused(lower) ||
      isSallyportHeader(lower) ||
      named?.has(lower) === true;
    if (!removed) kept.push(name, raw[index + 1] ?? '');
  }
  return kept;
}

function namedByConnection(raw: readonly string[]): ReadonlySet<string> | undefined {
  let named: Set<string> | undefined;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index];
    if (name?.length !== 10 || name.toLowerCase() !== 'connection') continue;
    const value = raw[index + 1] ?? '';
    // The most common values, which list no header.
    if (value === 'keep-alive' || value === 'close') continue;
    named ??= new Set();
    for (const token of value.split(',')) named.add(token.trim().toLowerCase());
    // These headers describe the content, not the hop, so `Connection` cannot remove them.
    for (const kept of ['content-length', 'content-type', 'content-encoding']) named.delete(kept);
  }
  return named;
}

/** Sets a header and removes all others of that name. */
export function withHeader(raw: readonly string[], name: string, value: string): string[] {
  return [...withoutHeader(raw, name), name, value];
}

/** Removes all headers of that name. */
export function withoutHeader(raw: readonly string[], name: string): string[] {
  const lower = name.toLowerCase();
  const kept: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    if (raw[index]?.toLowerCase() !== lower) kept.push(raw[index] ?? '', raw[index + 1] ?? '');
  }
  return kept;
}
