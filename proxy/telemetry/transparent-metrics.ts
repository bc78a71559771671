import { Counter, type Registry } from 'prom-client';

export interface TransparentMetrics {
  /** Counts a connection that network rules redirected. */
  redirected(): void;
  /** Counts a connection to the transparent port that no rule redirected. */
  direct(): void;
  /** Counts a DNS query by the code of its response. */
  query(rcode: string): void;
}

/**
 * Metrics of the transparent mode: `sallyport_redirected_connections_total{outcome}` (`accepted`, or
 * `not_redirected` for a connection made to the port itself) and
 * `sallyport_dns_queries_total{rcode}`.
 */
export function createTransparentMetrics(registry: Registry): TransparentMetrics {
  const registers = [registry];
  const connections = new Counter({
    name: 'sallyport_redirected_connections_total',
    help: 'Connections to the transparent port, by whether a network rule redirected them',
    labelNames: ['outcome'],
    registers,
  });
  const queries = new Counter({
    name: 'sallyport_dns_queries_total',
    help: 'DNS queries of the agent, by the code of the response',
    labelNames: ['rcode'],
    registers,
  });
  return {
    redirected: () => connections.inc({ outcome: 'accepted' }),
    direct: () => connections.inc({ outcome: 'not_redirected' }),
    query: (rcode) => queries.inc({ rcode }),
  };
}
