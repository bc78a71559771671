import type { Tracing } from '../call/tracing.ts';
import type { TracingSettings } from '../settings/config.ts';
import type { TracingOptions } from './otlp.ts';

/** Starts tracing if a collector is configured; otherwise not even its libraries are loaded. */
export async function openTracing({
  settings,
  ...options
}: Omit<TracingOptions, 'settings'> & {
  readonly settings: TracingSettings | undefined;
}): Promise<Tracing | undefined> {
  if (settings === undefined) return undefined;
  const { startTracing } = await import('./otlp.ts');
  return startTracing({ settings, ...options });
}
