import fs from 'node:fs';
import { openServices } from '../../control-plane/main.ts';
import { type Config, readConfig } from '../../control-plane/platform/config/config.ts';
import {
  adoptNextMasterKey,
  isKeyFiled,
  makeNextMasterKey,
} from '../../control-plane/platform/vault/master-key.ts';
import { renewWrapping } from '../../control-plane/vault/renew-wrapping.ts';
import { rotateMasterKey } from '../../control-plane/vault/rotate-master-key.ts';
import { type VaultStatus, vaultStatus } from '../../control-plane/vault/vault-status.ts';
import { printJson, table } from '../support/terminal.ts';

interface Options {
  readonly json?: boolean;
}

/** `sallyport vault status`. */
export async function status({ json }: Options): Promise<number> {
  const found = await withKeys(readSettings(), ({ keys, services }) => vaultStatus(keys, services));
  if (json === true) printJson(found);
  else console.log(statusText(found));
  return found.is_settled ? 0 : 1;
}

/** `sallyport vault rotate-master-key`. */
export async function rotate({ json }: Options): Promise<number> {
  const config = readSettings();
  // Progress is printed to standard error, because standard output is for the result.
  const onProgress = (step: string) => console.error(`sallyport: ${step} …`);
  const isFiled = isKeyFiled(config);
  if (isFiled) makeNextMasterKey(config.dataDir);
  const rotated = await withKeys(config, ({ keys, services }) =>
    rotateMasterKey(keys, services, { onProgress }),
  );
  if (isFiled) adoptNextMasterKey(config.dataDir);
  const { active, retired, rewrapped, unreadable } = rotated;
  const replaced = retired.length === 0 ? 'no key' : retired.join(', ');
  const lines = [
    `The active master key is ${active}. It replaced ${replaced}; ${rewrapped} data keys were wrapped again.`,
    ...(isFiled || retired.length === 0 ? [] : ['You can remove the old key from the settings.']),
    ...unreadable.map(
      (row) => `No known key opens ${row}: restore the row from a backup, or store it again.`,
    ),
  ];
  if (json === true) printJson(rotated);
  else console.log(lines.join('\n'));
  return unreadable.length === 0 ? 0 : 1;
}

/** `sallyport vault rewrap`. */
export async function rewrap({ json }: Options): Promise<number> {
  const renewed = await withKeys(readSettings(), ({ keys, services }) =>
    renewWrapping(keys, services),
  );
  if (json === true) printJson({ renewed });
  else console.log(`Wrapped again: ${renewed.join(', ')}`);
  return 0;
}

function readSettings(): Config {
  return readConfig({ env: process.env, readFile: (path) => fs.readFileSync(path, 'utf8') });
}

type Opened = Awaited<ReturnType<typeof openServices>>;

async function withKeys<T>(config: Config, use: (opened: Opened) => Promise<T>): Promise<T> {
  const opened = await openServices(config, undefined, { isHolder: false });
  try {
    return await use(opened);
  } finally {
    await opened.close();
  }
}

function statusText({ active, keys, foreign_secrets, control_planes, is_settled }: VaultStatus) {
  const rows = keys.map((key) => [key.id, key.state, String(key.secrets), key.provider]);
  const lines = [table(['MASTER KEY', 'STATE', 'DATA KEYS', 'FROM'], rows)];
  for (const { id, keys: known, active: wrapsWith } of control_planes) {
    lines.push(`${id} knows ${known.join(', ')} and wraps with ${wrapsWith}`);
  }
  if (foreign_secrets > 0)
    lines.push(`${foreign_secrets} secrets are wrapped by none of these keys.`);
  lines.push(
    is_settled
      ? `All data keys are wrapped by ${active}; no other key is needed.`
      : 'Other keys are still needed: run `sallyport vault rotate-master-key` until it completes.',
  );
  return lines.join('\n');
}
