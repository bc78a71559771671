interface Named {
  readonly name: string;
  readonly port: string;
}

/** A host as bindings and credentials name it; all names of this machine are one. */
export function namedHost(host: string): Named {
  const [, name = host, port = '443'] = /^(.*?)(?::(\d+))?$/.exec(host) ?? [];
  return { name: isLoopback(name) ? 'loopback' : name, port };
}

function isLoopback(name: string): boolean {
  return /^(?:localhost|(?:.+\.)?localhost|127(?:\.\d+){3}|\[::1\])$/.test(name);
}
