import fs from 'node:fs';
import type { Registry } from 'prom-client';
import type { Log } from '../../shared/base/log.ts';
import type { Guard } from '../../shared/upstream/address-guard.ts';
import type { Closing } from '../base/closing.ts';
import { startDnsServer } from '../dns/dns-server.ts';
import { readSearchDomains, withoutSearchDomains } from '../dns/search-domains.ts';
import { SyntheticNames } from '../dns/synthetic-names.ts';
import type { Ingress } from '../ingress/ingress.ts';
import type { Config } from '../settings/config.ts';
import { createTransparentMetrics } from '../telemetry/transparent-metrics.ts';
import { startTransparentListener } from '../transparent/transparent-listener.ts';

interface TransparentParts {
  readonly ingress: Ingress;
  readonly guard: Guard;
  readonly registry: Registry;
  readonly log: Log;
  readonly closing: Closing;
}

/** Redirect rules lead connections from this machine to its loopback addresses. */
const hosts = ['127.0.0.1', '::1'];

/**
 * Opens the ports to which `sallyport network apply` redirects the agent's connections and DNS
 * queries.
 */
export async function listenTransparent(
  { transparent, limits }: Pick<Config, 'transparent' | 'limits'>,
  { ingress, guard, registry, log, closing }: TransparentParts,
): Promise<void> {
  if (transparent === undefined) return;
  // Loaded here, because a sidecar without this port does not need the native module.
  const { originalDestinationReader } = await import('../transparent/original-destination.ts');
  const metrics = createTransparentMetrics(registry);
  const names = new SyntheticNames();
  const searchDomains = readSearchDomains((path) => fs.readFileSync(path, 'utf8'));
  const listener = await startTransparentListener({
    port: transparent.port,
    hosts,
    connectionsMax: limits.connectionsMax,
    readDestination: originalDestinationReader(),
    onRedirected(socket, { address, port }) {
      metrics.redirected();
      const name = names.nameOf(address.text);
      ingress.acceptRedirected(socket, {
        address: address.text,
        port,
        names: name === undefined ? [] : [name, ...withoutSearchDomains(name, searchDomains)],
      });
    },
    onDirect: () => metrics.direct(),
  });
  closing.add(() => listener.close());
  const dns = await startDnsServer({
    port: transparent.dnsPort,
    hosts,
    names,
    onQuery: (rcode) => metrics.query(rcode),
  });
  closing.add(() => dns.close());
  for (const port of [listener.port, dns.port]) guard.ownPorts.add(port);
  log.info({ port: listener.port, dns: dns.port }, 'the sidecar accepts redirected connections');
}
