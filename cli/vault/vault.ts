import fs from 'node:fs';
import { parseArgs } from 'node:util';
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
import { table } from '../table.ts';

const usage = `Usage: sallyport vault status [--json]
       sallyport vault rotate-master-key [--json]
       sallyport vault rewrap [--json]

All of them work on the database itself, with the settings of a control plane: DATABASE_URL, and
SALLYPORT_MASTER_KEY with SALLYPORT_MASTER_KEY_PREVIOUS, or SALLYPORT_KMS_KEY.

  status             which master keys there are, what they wrap, which control planes know them;
                     exit 1 while anything but the key in force is needed
  rotate-master-key  replace the master key while everything runs; ended at any point, begin it again
  rewrap             have the KMS wrap its master keys under the present version of its own key`;

/** `sallyport vault …`: the master key, and what it wraps. */
export async function vault([verb, ...args]: readonly string[]): Promise<number> {
  if (verb === '--help') {
    console.log(usage);
    return 0;
  }
  const command = verb === undefined ? undefined : commands[verb];
  if (command === undefined) {
    console.error(usage);
    return 2;
  }
  const { values } = parseArgs({ args: [...args], options: { json: { type: 'boolean' } } });
  const config = readConfig({
    env: process.env,
    readFile: (path) => fs.readFileSync(path, 'utf8'),
  });
  return command(config, values.json === true);
}

type Command = (config: Config, isJson: boolean) => Promise<number>;

const commands: Readonly<Record<string, Command | undefined>> = {
  status: async (config, isJson) => {
    const status = await withKeys(config, ({ keys, services }) => vaultStatus(keys, services));
    console.log(isJson ? JSON.stringify(status, null, 2) : statusText(status));
    return status.is_settled ? 0 : 1;
  },
  'rotate-master-key': async (config, isJson) => {
    // Standard output is for the result.
    const onProgress = (step: string) => console.error(`sallyport: ${step} …`);
    const isFiled = isKeyFiled(config);
    if (isFiled) makeNextMasterKey(config.dataDir);
    const done = await withKeys(config, ({ keys, services }) =>
      rotateMasterKey(keys, services, { onProgress }),
    );
    if (isFiled) adoptNextMasterKey(config.dataDir);
    const { active, retired, rewrapped, unreadable } = done;
    const replaced = retired.length === 0 ? 'nothing' : retired.join(', ');
    const text = [
      `The master key in force is ${active}; it replaced ${replaced}, and ${rewrapped} data keys were wrapped anew.`,
      ...(isFiled || retired.length === 0 ? [] : ['The old key can be taken out of the settings.']),
      ...unreadable.map((row) => `No known key opens ${row}: restore it, or store it again.`),
    ];
    console.log(isJson ? JSON.stringify(done, null, 2) : text.join('\n'));
    return unreadable.length === 0 ? 0 : 1;
  },
  rewrap: async (config, isJson) => {
    const renewed = await withKeys(config, ({ keys, services }) => renewWrapping(keys, services));
    console.log(
      isJson ? JSON.stringify({ renewed }, null, 2) : `Wrapped anew: ${renewed.join(', ')}`,
    );
    return 0;
  },
};

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
  for (const { id, keys: known, active: wrapsBy } of control_planes) {
    lines.push(`${id} knows ${known.join(', ')} and wraps by ${wrapsBy}`);
  }
  if (foreign_secrets > 0) lines.push(`${foreign_secrets} secrets are under no key of these.`);
  lines.push(
    is_settled
      ? `Everything is under ${active}; no other key is needed.`
      : 'Other keys are still needed: run sallyport vault rotate-master-key to the end.',
  );
  return lines.join('\n');
}
