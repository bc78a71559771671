import { Counter, Gauge, type Registry } from 'prom-client';

interface Description {
  readonly name: string;
  readonly help: string;
}

/** A gauge that reads its value when Prometheus collects it. */
export function gauge(
  registry: Registry,
  description: Description,
  value: () => number | Promise<number>,
): void {
  new Gauge({
    ...description,
    registers: [registry],
    async collect() {
      this.set(await value());
    },
  });
}

/** A counter whose total is kept outside the registry. */
export function counter(registry: Registry, description: Description, total: () => number): void {
  new Counter({
    ...description,
    registers: [registry],
    collect() {
      // Without the reset, every collection would add the total again.
      this.reset();
      this.inc(total());
    },
  });
}
