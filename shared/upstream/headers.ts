// RFC 9110 section 7.6.1, with those that Connection should have named but often does not.
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
// Host and framing are made anew for every hop; the sidecar has answered Expect itself.
const requestOwn = new Set(['host', 'content-length', 'expect']);
const hints = new Set(['action-passport', 'action-goal', 'action-idempotency-key']);
const responseRefused = new Set(['alt-svc', 'alt-used']);

function isOurs(name: string): boolean {
  return name.startsWith('sallyport-') || name.startsWith('proxy-');
}

/**
 * Request headers that may leave, as names and values in turn. Takes what an agent sent, or what
 * was built for it. Removes hop-by-hop headers and those that `Connection` names, `Host` and
 * framing, `Expect`, `Proxy-*`, the agent's hints, and `Sallyport-*`.
 */
export function outboundHeaders(raw: readonly string[]): string[] {
  return endToEnd(raw, (lower) => requestOwn.has(lower) || hints.has(lower));
}

/**
 * Response headers that may reach the agent. Removes hop-by-hop headers and those that
 * `Connection` names, `Alt-Svc` (it would lead past the proxy), `Proxy-*` and `Sallyport-*`;
 * `Content-Length` too where the length is not known from it (RFC 9112 section 6.2).
 */
export function inboundHeaders(raw: readonly string[], lengthKnown: boolean): string[] {
  return endToEnd(
    raw,
    (lower) => responseRefused.has(lower) || (lower === 'content-length' && !lengthKnown),
  );
}

/** What is neither for this hop alone, nor ours, nor refused in this direction. */
function endToEnd(raw: readonly string[], isRefused: (lower: string) => boolean): string[] {
  const named = namedByConnection(raw);
  const kept: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? '';
    const lower = name.toLowerCase();
    const removed =
      hopByHop.has(lower) || isRefused(lower) || isOurs(lower) || named?.has(lower) === true;
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
    // What nearly every connection says, and names nothing.
    if (value === 'keep-alive' || value === 'close') continue;
    named ??= new Set();
    for (const token of value.split(',')) named.add(token.trim().toLowerCase());
    // Naming these would take away what the message means, not what the hop is.
    for (const kept of ['content-length', 'content-type', 'content-encoding']) named.delete(kept);
  }
  return named;
}

/** The headers without any of that name, then the one given. */
export function withHeader(raw: readonly string[], name: string, value: string): string[] {
  return [...withoutHeader(raw, name), name, value];
}

/** The headers without any of that name. */
export function withoutHeader(raw: readonly string[], name: string): string[] {
  const lower = name.toLowerCase();
  const kept: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    if (raw[index]?.toLowerCase() !== lower) kept.push(raw[index] ?? '', raw[index + 1] ?? '');
  }
  return kept;
}
