import { Counter, Gauge, type Registry } from 'prom-client';

interface Description {
  readonly name: string;
  readonly help: string;
}

/** A gauge that is read when it is asked for. */
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

/** A counter that somebody else keeps. */
export function counter(registry: Registry, description: Description, total: () => number): void {
  new Counter({
    ...description,
    registers: [registry],
    collect() {
      // Or it would add up with itself at every reading.
      this.reset();
      this.inc(total());
    },
  });
}
