import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { chartReadme } from './chart-readme.ts';
import { injectionFile } from './injection-file.ts';
import { valuesSchema } from './values-schema.ts';

const root = resolve(import.meta.dirname, '../..');

export const chartFolder = join(root, 'charts/sallyport');

type Json = Readonly<Record<string, unknown>>;

/** The generated files of the chart: path in the chart's folder, and content. */
export function chartFiles(): Readonly<Record<string, string>> {
  const read = (path: string) => readFileSync(join(chartFolder, path), 'utf8');
  const templates = readdirSync(join(chartFolder, 'templates'), {
    recursive: true,
    encoding: 'utf8',
  })
    .filter((name) => name.endsWith('.tpl'))
    .map((name) => read(join('templates', name)))
    .join('\n');
  const schema = z.toJSONSchema(valuesSchema, { target: 'draft-7', io: 'input' });
  return {
    'README.md': chartReadme(read('values.yaml'), templates),
    // For an unknown name, Helm would not suggest the name that was meant. Therefore Helm's schema
    // accepts every name, and a template compares the names with the strict schema.
    'values.schema.json': json(withoutKeyword(schema, isClosed)),
    // Editors use this schema to check a file that has only some of the values.
    'values.strict.schema.json': json(withoutKeyword(schema, isRequired)),
    'files/injection.json': json(injectionFile()),
    'files/dashboard.json': readFileSync(join(root, 'deploy/grafana/sallyport.json'), 'utf8'),
    'files/alerts.yaml': readFileSync(join(root, 'deploy/prometheus/alerts.yaml'), 'utf8'),
  };
}

type IsKeyword = (name: string, value: unknown) => boolean;

const isClosed: IsKeyword = (name, value) => name === 'additionalProperties' && value === false;
const isRequired: IsKeyword = (name, value) => name === 'required' && Array.isArray(value);

function withoutKeyword(node: unknown, isOmitted: IsKeyword): unknown {
  if (Array.isArray(node)) return node.map((item) => withoutKeyword(item, isOmitted));
  if (typeof node !== 'object' || node === null) return node;
  const kept = Object.entries(node as Json).filter(([name, value]) => !isOmitted(name, value));
  return Object.fromEntries(kept.map(([name, value]) => [name, withoutKeyword(value, isOmitted)]));
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
