/** The host name for requests to the sidecar itself; it exists only inside the proxy. */
export const internalHost = 'sallyport.internal';
