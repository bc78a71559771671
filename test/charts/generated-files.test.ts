import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { chartFiles, chartFolder } from '../../scripts/chart/chart-files.ts';
import { controlPlaneSettings, valuesSchema } from '../../scripts/chart/values-schema.ts';
import { secretSettings, settingNames } from '../../shared/base/settings.ts';

const read = (path: string) => readFileSync(join(chartFolder, path), 'utf8');

it.each(Object.entries(chartFiles()))('`npm run chart` would not change %s', (path, content) => {
  expect(read(path)).toBe(content);
});

it('the chart accepts its default values', () => {
  expect(valuesSchema.safeParse(parse(read('values.yaml'))).error).toBeUndefined();
});

it('the control plane settings that the chart accepts exist and are not secret', () => {
  expect(settingNames).toEqual(expect.arrayContaining([...controlPlaneSettings]));
  expect(controlPlaneSettings.filter((name) => secretSettings.includes(name))).toEqual([]);
});

it('the appVersion of the chart is the version of the package', () => {
  const { version } = JSON.parse(readFileSync(join(chartFolder, '../../package.json'), 'utf8'));
  expect(parse(read('Chart.yaml')).appVersion).toBe(version);
});
