import fs from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { readConfig } from '../../proxy/settings/config.ts';
import { limitSettings } from '../../proxy/settings/limits.ts';
import { settingNames } from '../../shared/base/settings.ts';

const page = resolve(import.meta.dirname, '../../docs/reference/settings.md');
const rows = fs
  .readFileSync(page, 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => line.split('|').map((cell) => cell.trim()));

it('docs/reference/settings.md lists every setting once, and no unknown setting', () => {
  const listed = rows.flatMap(([, names = '']) => names.match(/SALLYPORT_\w+/g) ?? []);
  expect(listed.sort()).toEqual([...settingNames].sort());
});

it.each(Object.entries(limitSettings))(
  '%s has the documented default and range',
  (name, schema) => {
    const [, , , byDefault, range = ''] = rows.find(([, cell]) => cell === `\`${name}\``) ?? [];
    const [from, to] = range.replace('a day', '86400000').split(' – ').map(Number);
    expect(schema.parse(undefined)).toBe(Number(byDefault));
    expect([from, to].map((value) => schema.safeParse(value).success)).toEqual([true, true]);
    const beyond = [Number(from) - 1, Number(to) + 1];
    expect(beyond.map((value) => schema.safeParse(value).success)).toEqual([false, false]);
  },
);

// HTTP clients such as httpx have a default timeout of five seconds.
it('the default hold ends before common clients time out, and is documented', () => {
  const { holdMs, holdMsMax } = readConfig({ env: {}, readFile: () => '' });
  expect(holdMs).toBeLessThan(5_000);
  const defaultOf = (name: string) => Number(rows.find(([, cell]) => cell === `\`${name}\``)?.[3]);
  expect([holdMs, holdMsMax]).toEqual(
    ['SALLYPORT_HOLD_MS', 'SALLYPORT_HOLD_MS_MAX'].map(defaultOf),
  );
});
