import { escapeAttempts } from '../test/support/network/escape-attempts.ts';
import { escapeScenarios } from '../test/support/network/escape-scenarios.ts';
import { table } from './markdown.ts';

const results: Readonly<Record<string, string>> = {
  sidecar: 'redirected: the sidecar answers',
  rejected: 'rejected: the agent gets an error at once',
  silence: 'dropped: nothing answers',
  refused: 'refused by the kernel: the agent lacks the privilege',
};

const region = /(<!-- escape attempts[^>]*-->\n).*?(<!-- end of escape attempts -->)/s;

/** `docs/explanation/isolation.md` with the current table of escape attempts. */
export function isolationPage(page: string): string {
  if (!region.test(page)) throw new Error('isolation.md has no region for the escape attempts.');
  const rows = [
    ...escapeAttempts.map(({ title, observed, leavesWithoutRules }) => [
      title,
      results[observed] ?? observed,
      leavesWithoutRules ? 'leaves' : 'does not leave',
    ]),
    ...escapeScenarios.map(({ title, observed }) => [
      title,
      results[observed] ?? observed,
      // A scenario applies the rules itself.
      '–',
    ]),
  ];
  const text = table(['Attempt', 'Result with the rules', 'Without the rules'], rows);
  return page.replace(region, (_, begin: string, end: string) => `${begin}\n${text}\n\n${end}`);
}
