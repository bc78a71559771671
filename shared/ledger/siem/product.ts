/** Sallyport's name in other systems; the version is that of the API contract. */
export const product = { name: 'Sallyport', vendor: 'Sallyport', version: '1.1.1' } as const;

/** The source name, for dialects that require a host name. */
export const gatewayName = 'gateway';
