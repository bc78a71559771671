import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { parse } from 'yaml';

export const deployFolder = resolve(import.meta.dirname, '../../../deploy');

interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: {
    readonly x: number;
    readonly y: number;
    readonly w: number;
    readonly h: number;
  };
  readonly targets?: readonly { readonly expr: string }[];
}

export function readAlerts(): AlertRule[] {
  const text = fs.readFileSync(join(deployFolder, 'prometheus/alerts.yaml'), 'utf8');
  const { groups } = parse(text) as { groups: { rules: AlertRule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

export function readBoard(): { readonly panels: readonly Panel[] } {
  return JSON.parse(fs.readFileSync(join(deployFolder, 'grafana/sallyport.json'), 'utf8'));
}

/** Returns the expressions of the dashboard, with Grafana's variables replaced by values. */
export function boardExpressions(): string[] {
  return readBoard().panels.flatMap(({ targets = [] }) =>
    targets.map(({ expr }) =>
      expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'),
    ),
  );
}

/** Returns the metrics that an expression refers to. */
export function metricsIn(expression: string): string[] {
  return [...expression.matchAll(/\b(?:sallyport|process|nodejs)_[a-z0-9_]+/g)].map(
    ([name]) => name,
  );
}
