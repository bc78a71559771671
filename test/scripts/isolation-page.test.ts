import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { isolationPage } from '../../scripts/isolation-page.ts';
import { escapeAttempts } from '../support/network/escape-attempts.ts';
import { escapeScenarios } from '../support/network/escape-scenarios.ts';

it('docs/explanation/isolation.md lists the tested escape attempts (npm run reference)', () => {
  const path = new URL('../../docs/explanation/isolation.md', import.meta.url);
  const page = readFileSync(path, 'utf8');
  expect(page).toBe(isolationPage(page));
});

it('the escape attempts have unique titles', () => {
  const titles = [...escapeAttempts, ...escapeScenarios].map(({ title }) => title);
  expect(titles.length).toBeGreaterThan(90);
  expect(new Set(titles).size).toBe(titles.length);
});
