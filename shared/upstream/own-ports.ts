const defaultPorts: Readonly<Record<string, number>> = {
  'http:': 80,
  'https:': 443,
  'redis:': 6379,
  'rediss:': 6379,
  'postgres:': 5432,
  'postgresql:': 5432,
};

/**
 * The ports of these URLs, which belong to Sallyport's own programs. On this machine, an agent may
 * never connect to these ports, whatever policies allow.
 */
export function portsOf(urls: readonly (string | undefined)[]): number[] {
  return urls.flatMap((text) => {
    const url = URL.parse(text ?? '');
    const port = url === null ? 0 : Number(url.port) || defaultPorts[url.protocol];
    return port === undefined || port === 0 ? [] : [port];
  });
}
