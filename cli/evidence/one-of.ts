import { SettingsError } from '../../shared/base/settings.ts';

/** The word that an option gives, of those that it may be. */
export function oneOf<Word extends string>(
  option: string,
  words: readonly Word[],
  given: string,
): Word {
  const word = words.find((one) => one === given);
  if (word !== undefined) return word;
  throw new SettingsError(`${option}: must be one of ${words.join(', ')}.`);
}
