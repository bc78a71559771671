import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { codes, page, table } from './markdown.ts';
import type { MetricsOfPrograms, RegisteredMetric } from './registered-metrics.ts';

const introduction = `Every metric of Sallyport's own, by program: \`/metrics\` of a control plane, and of the
admin port of a sidecar and of an injector. Control plane and sidecar also export the process and Node metrics of prom-client under their usual names
(\`process_…\`, \`nodejs_…\`). Labels never hold paths, tenants or arguments. A histogram adds \`_bucket\`,
\`_sum\` and \`_count\` to its name. **Alerts** names the rules of \`deploy/prometheus/alerts.yaml\` that use the
metric; [operate](../how-to/operate.md#metrics-and-alerts) says how to scrape and import them.`;

/** `docs/reference/metrics.md`, from the registries of both programs. */
export async function metricsPage(): Promise<string> {
  const [controlPlane, sidecar, injector] = await registeredMetrics();
  const alerts = readAlerts();
  const section = (title: string, metrics: readonly RegisteredMetric[]) =>
    `## ${title}\n\n${metricsTable(metrics, alerts)}`;
  return page('Metrics', introduction, [
    section('Control plane', controlPlane),
    section('Sidecar', sidecar),
    section('Injector', injector),
  ]);
}

function metricsTable(metrics: readonly RegisteredMetric[], alerts: readonly Alert[]): string {
  const rows = metrics
    .filter(({ name }) => name.startsWith('sallyport_'))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .map(({ name, type, labelNames, help }) => {
      const users = alerts.filter(({ expr }) => asksFor(expr, name)).map(({ alert }) => alert);
      return [`\`${name}\``, type, codes(labelNames), help, codes(users)];
    });
  return table(['Metric', 'Type', 'Labels', 'Meaning', 'Alerts'], rows);
}

async function registeredMetrics(): Promise<MetricsOfPrograms> {
  const program = fileURLToPath(new URL('registered-metrics.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [program]);
  return JSON.parse(stdout) as MetricsOfPrograms;
}

interface Alert {
  readonly alert: string;
  readonly expr: string;
}

function readAlerts(): readonly Alert[] {
  const file = new URL('../deploy/prometheus/alerts.yaml', import.meta.url);
  const { groups } = parse(readFileSync(file, 'utf8')) as { groups: { rules: Alert[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

function asksFor(expression: string, name: string): boolean {
  return new RegExp(`\\b${name}(?:_bucket|_sum|_count)?(?![a-z0-9_])`).test(expression);
}
