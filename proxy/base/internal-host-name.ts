/** The host that the sidecar itself answers; it exists only inside the proxy. */
export const internalHost = 'sallyport.internal';
