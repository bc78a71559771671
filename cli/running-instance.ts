import fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { SettingsError } from '../shared/base/settings.ts';

/** The embedded instance of a data directory, as its own commands find it. */
const schema = z.strictObject({
  origin: z.url(),
  ownerKey: z.string(),
  proxyUrl: z.url(),
  adminUrl: z.url(),
  pid: z.int().positive(),
  /** When the process began, in ticks since the machine did: a number may be used again, a start may not. */
  startedAt: z.string().optional(),
});
export type RunningInstance = z.output<typeof schema>;

type Environment = Readonly<Record<string, string | undefined>>;

function fileIn(env: Environment): string {
  return join(env.SALLYPORT_DATA_DIR ?? '.sallyport', 'running.json');
}

/** Notes this process as the instance of its data directory; resolves with how to remove the note. */
export function noteRunning(
  instance: Omit<RunningInstance, 'pid' | 'startedAt'>,
  env: Environment,
): () => void {
  const file = fileIn(env);
  const startedAt = startOf(process.pid);
  const note: RunningInstance = {
    ...instance,
    pid: process.pid,
    ...(startedAt === undefined ? {} : { startedAt }),
  };
  fs.rmSync(file, { force: true });
  fs.writeFileSync(file, `${JSON.stringify(note)}\n`, { mode: 0o600, flag: 'wx' });
  return () => fs.rmSync(file, { force: true });
}

/**
 * The instance that runs on the data directory of this folder, or undefined: none was started, or
 * it is no longer there. A command that `sallyport run` started finds none: it belongs to an agent.
 */
export function findRunning(env: Environment): RunningInstance | undefined {
  if (env.NODE_OPTIONS?.includes('agent-preload.cjs')) return undefined;
  const file = fileIn(env);
  let text: string;
  try {
    const { mode, uid } = fs.statSync(file);
    if ((mode & 0o077) !== 0 || (process.getuid !== undefined && uid !== process.getuid())) {
      throw new SettingsError(
        `${file} names the owner's key and can be read or was written by others: run chmod 600 ${file}, or remove it if it is not yours.`,
      );
    }
    text = fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof SettingsError) throw error;
    return undefined;
  }
  const note = parse(text);
  return note !== undefined && isAlive(note) ? note : undefined;
}

function parse(text: string): RunningInstance | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Whoever listens on the port of an instance that ended must not be sent its key. */
function isAlive({ pid, startedAt }: RunningInstance): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return startOf(pid) === startedAt;
}

/** Field 22 of /proc/<pid>/stat (proc(5)); undefined where there is no such file. */
function startOf(pid: number): string | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
