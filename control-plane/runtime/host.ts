/**
 * A host in the one spelling that bindings, credentials and the sidecar compare: lower-case
 * A-label or IP literal (IPv6 in brackets), no trailing dot, `:port` only where it is neither 80
 * nor 443. Undefined for anything that is not a single host.
 */
export function normaliseHost(text: string): string | undefined {
  // What the URL parser would take for the end of the host, skip, or read as another host.
  if (!/^[^\s/?#@\\%*]+$/.test(text)) return undefined;
  const url = URL.parse(`http://${text}/`);
  if (url === null || url.hostname === '') return undefined;
  const name = url.hostname.replace(/\.$/, '');
  if (!isName(name)) return undefined;
  return url.port === '' || url.port === '443' ? name : `${name}:${url.port}`;
}

/** RFC 1123 labels, the underscore allowed, or an IPv6 literal as the URL parser prints it. */
function isName(name: string): boolean {
  if (name.startsWith('[')) return true;
  return (
    name.length <= 253 &&
    name.split('.').every((label) => /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label))
  );
}
