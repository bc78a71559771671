const reserved = ['sidecar:', 'service-account:'];

/** True for a name that only Sallyport itself gives: no person is called so. */
export function isReservedPrincipal(principal: string): boolean {
  return reserved.some((prefix) => principal.startsWith(prefix));
}

export function serviceAccountPrincipal(id: string): string {
  return `service-account:${id}`;
}
