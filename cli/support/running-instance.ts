import fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { SettingsError } from '../../shared/base/settings.ts';

/** The embedded instance of a data directory, as recorded for commands. */
const schema = z.strictObject({
  origin: z.url(),
  ownerKey: z.string(),
  proxyUrl: z.url(),
  adminUrl: z.url(),
  /** The sidecar's data directory; absent in records of earlier versions. */
  sidecarFolder: z.string().optional(),
  pid: z.int().positive(),
  /**
   * Start time of the process, in ticks since boot. A process id alone does not identify a
   * process, because the system reuses process ids.
   */
  startedAt: z.string().optional(),
});
export type RunningInstance = z.output<typeof schema>;

type Environment = Readonly<Record<string, string | undefined>>;

function fileIn(env: Environment): string {
  return join(env.SALLYPORT_DATA_DIR ?? '.sallyport', 'running.json');
}

/** Records this process as the instance of its data directory. Returns a function that removes the record. */
export function recordRunning(
  instance: Omit<RunningInstance, 'pid' | 'startedAt'>,
  env: Environment,
): () => void {
  const file = fileIn(env);
  const startedAt = startTimeOf(process.pid);
  const record: RunningInstance = {
    ...instance,
    pid: process.pid,
    ...(startedAt === undefined ? {} : { startedAt }),
  };
  fs.rmSync(file, { force: true });
  fs.writeFileSync(file, `${JSON.stringify(record)}\n`, { mode: 0o600, flag: 'wx' });
  return () => fs.rmSync(file, { force: true });
}

/**
 * The instance that runs on the data directory of this folder, or undefined if none runs. Undefined
 * for a command under `sallyport run`, because such a command belongs to an agent.
 */
export function findRunning(env: Environment): RunningInstance | undefined {
  if (env.NODE_OPTIONS?.includes('agent-preload.cjs')) return undefined;
  const file = fileIn(env);
  let text: string;
  try {
    const { mode, uid } = fs.statSync(file);
    if ((mode & 0o077) !== 0 || (process.getuid !== undefined && uid !== process.getuid())) {
      throw new SettingsError(
        `${file} contains the owner's key, and other users can read it or own it. Run chmod 600 ${file}, or remove the file if it is not yours.`,
      );
    }
    text = fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof SettingsError) throw error;
    return undefined;
  }
  const record = parse(text);
  return record !== undefined && isAlive(record) ? record : undefined;
}

function parse(text: string): RunningInstance | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/**
 * True if the recorded process still runs. Otherwise, another program may have the port and would
 * receive the key.
 */
function isAlive({ pid, startedAt }: RunningInstance): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return startTimeOf(pid) === startedAt;
}

/** Field 22 of /proc/<pid>/stat (proc(5)); undefined on systems without it. */
function startTimeOf(pid: number): string | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
