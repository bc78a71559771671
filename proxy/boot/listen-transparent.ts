import fs from 'node:fs';
import type { Socket } from 'node:net';
import type { Registry } from 'prom-client';
import type { Log } from '../../shared/base/log.ts';
import { sha256 } from '../../shared/crypto/hash.ts';
import type { Guard } from '../../shared/upstream/address-guard.ts';
import type { Closing } from '../base/closing.ts';
import { adoptDnsServer, startDnsServer } from '../dns/dns-server.ts';
import { readSearchDomains, withoutSearchDomains } from '../dns/search-domains.ts';
import { SyntheticNames } from '../dns/synthetic-names.ts';
import type { Ingress } from '../ingress/ingress.ts';
import type { Config, TransparentSettings } from '../settings/config.ts';
import {
  createTransparentMetrics,
  type TransparentMetrics,
} from '../telemetry/transparent-metrics.ts';
import type { Authority } from '../tls/authority.ts';
import { type NamespaceSockets, openNamespaceSocket } from '../transparent/namespace-socket.ts';
import type { OriginalDestination } from '../transparent/original-destination.ts';
import {
  adoptTransparentListener,
  startTransparentListener,
} from '../transparent/transparent-listener.ts';

interface TransparentParts {
  readonly authority: Pick<Authority, 'certPem'>;
  readonly ingress: Ingress;
  readonly guard: Guard;
  readonly registry: Registry;
  readonly log: Log;
  readonly closing: Closing;
}

/** The loopback addresses, to which redirect rules send connections from this machine. */
const hosts = ['127.0.0.1', '::1'];

type Listening = Pick<Config, 'transparent' | 'acceptsNamespaces' | 'limits' | 'dataDir'>;

/**
 * Opens the ports to which `sallyport network apply` redirects the agent's connections and DNS
 * queries, and the socket for the network namespaces of `sallyport run --isolated`.
 */
export async function listenTransparent(
  { transparent, acceptsNamespaces, limits, dataDir }: Listening,
  parts: TransparentParts,
): Promise<void> {
  if (transparent === undefined && !acceptsNamespaces) return;
  const context = { ...parts, limits, metrics: createTransparentMetrics(parts.registry) };
  if (transparent !== undefined) await listenOnPorts(transparent, context);
  if (!acceptsNamespaces) return;
  const close = await openNamespaceSocket({
    dataDir,
    caSha256: sha256(parts.authority.certPem),
    serve: (sockets) => serveNamespace(sockets, context),
    log: parts.log,
  });
  parts.closing.add(close);
}

interface Context extends TransparentParts {
  readonly limits: Config['limits'];
  readonly metrics: TransparentMetrics;
}

async function listenOnPorts(transparent: TransparentSettings, context: Context): Promise<void> {
  const { guard, log, closing, metrics } = context;
  const names = new SyntheticNames();
  const listener = await startTransparentListener({
    port: transparent.port,
    hosts,
    ...(await acceptOptions(names, context)),
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

/**
 * Each namespace has its own synthetic names, so that a run cannot learn the names that another run
 * queried.
 */
async function serveNamespace(
  sockets: readonly NamespaceSockets[],
  context: Context,
): Promise<() => Promise<void>> {
  const names = new SyntheticNames();
  const options = await acceptOptions(names, context);
  const onQuery = (rcode: string) => context.metrics.query(rcode);
  const closers: (() => Promise<void> | void)[] = [];
  for (const { family, tcp, dnsTcp, dnsUdp } of sockets) {
    closers.push(await adoptTransparentListener(tcp, options));
    closers.push(await adoptDnsServer({ tcp: dnsTcp, udp: dnsUdp, family }, { names, onQuery }));
  }
  return async () => {
    await Promise.all(closers.map((close) => close()));
  };
}

async function acceptOptions(names: SyntheticNames, { ingress, limits, metrics }: Context) {
  // Loaded here, because a sidecar without redirected connections does not need the native module.
  const { originalDestinationReader } = await import('../transparent/original-destination.ts');
  const searchDomains = readSearchDomains((path) => fs.readFileSync(path, 'utf8'));
  return {
    connectionsMax: limits.connectionsMax,
    readDestination: originalDestinationReader(),
    onRedirected(socket: Socket, { address, port }: OriginalDestination) {
      metrics.redirected();
      const name = names.nameOf(address.text);
      ingress.acceptRedirected(socket, {
        address: address.text,
        port,
        names: name === undefined ? [] : [name, ...withoutSearchDomains(name, searchDomains)],
      });
    },
    onDirect: () => metrics.direct(),
  };
}
