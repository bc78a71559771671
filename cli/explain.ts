import { describeFileError } from '../shared/base/file-error.ts';
import { SettingsError } from '../shared/base/settings.ts';
import { visible } from './table.ts';

/**
 * Tells an error: in one line what an operator caused and can mend, all others with their stack.
 * True when the command was used wrongly.
 */
export function explain(error: Error & { readonly code?: string }): boolean {
  const misused = error.code?.startsWith('ERR_PARSE_ARGS') === true;
  const operators = misused || error instanceof SettingsError || mendable.includes(error.name);
  const message = operators ? error.message : describeFileError(error);
  console.error(message === undefined ? error.stack : `sallyport: ${printable(message)}`);
  return misused;
}

/** By name: what defines them is loaded only where it is needed. */
const mendable = ['StoreError', 'SourceError', 'KmsError'];

/** Messages quote files and answers: none of that may control the terminal. */
function printable(message: string): string {
  return message.split('\n').map(visible).join('\n');
}
