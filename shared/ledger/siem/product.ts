/** How Sallyport names itself to other systems; the version is that of the API contract. */
export const product = { name: 'Sallyport', vendor: 'Sallyport', version: '1.1.1' } as const;

/** The program that a record comes from, where a dialect wants the name of a host. */
export const gatewayName = 'gateway';
