/**
 * Where the stored bindings lead. Bindings name their port, so a stored one cannot take a free
 * port at run time; a loopback address of its own keeps it apart from everything else.
 */
export const upstreamAddress = '127.91.17.5';
export const upstreamPort = 17_391;
export const upstreamHost = `${upstreamAddress}:${upstreamPort}`;
