import fs from 'node:fs';
import { getSystemErrorMessage, getSystemErrorName } from 'node:util';
import koffi from 'koffi';
import { IsolationError } from './isolation-error.ts';

// Functions of the C library that Node does not offer. They are called on the main thread, because
// the children of this process inherit its privileges. Constants: sys/mount.h, linux/prctl.h,
// linux/capability.h.
const libc = koffi.load(null);
const mountCall = libc.func(
  'int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)',
);
const prctl = libc.func(
  'int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)',
);
const prctlPointer = libc.func('int prctl(int option, unsigned long a, void *b)');
const capget = libc.func('int capget(void *header, _Out_ uint8_t *data)');
const capset = libc.func('int capset(void *header, void *data)');
const fcntl = libc.func('int fcntl(int fd, int command, long value)');
const syscallAttr = libc.func(
  'long syscall(long number, int folder, const char *path, unsigned int flags, void *attr, size_t size)',
);
const syscallPair = libc.func('long syscall(long number, long a, long b)');
const waitid = libc.func('int waitid(int type, int id, _Out_ uint8_t *info, int options)');
const waitpid = libc.func('int waitpid(int pid, _Out_ uint8_t *status, int options)');

export const mountFlags = { readOnly: 1, noSuid: 2, noDev: 4, noExec: 8, remount: 32, bind: 4096 };
const prctls = { setDumpable: 4, dropBounding: 24, noNewPrivileges: 38, seccomp: 22, ambient: 47 };
const ambientClearAll = 4;
const seccompFilter = 2;
const capabilityVersion = 0x2008_0522;
const highestCapability = 63;
const setFlags = 2;
const closeOnExec = 1;
const mountSetattr = 442;
const here = -100;
const recursive = 0x8000;
const joinSessionKeyring = 1;
const keyctl: Readonly<Record<string, number>> = { x64: 250, arm64: 219 };
const waitOptions = { noHang: 1, exited: 4, noWait: 0x100_0000 };
const pidOffset = 16;

export interface Mount {
  readonly source: string;
  readonly target: string;
  readonly type: string;
  readonly flags: number;
  readonly data?: string | undefined;
}

export function mount({ source, target, type, flags, data }: Mount): void {
  if (mountCall(source, target, type, flags, data ?? null) === 0) return;
  throw failure(`mounting ${type === '' ? source : type} at ${target}`);
}

/** Makes a mount, and the mounts below it, read-only. Returns false if the kernel is older than 5.12. */
export function makeReadOnly(target: string): boolean {
  const attributes = Buffer.alloc(32);
  attributes.writeBigUInt64LE(1n, 0);
  if (syscallAttr(mountSetattr, here, target, recursive, attributes, attributes.length) === 0) {
    return true;
  }
  if (errnoName() === 'ENOSYS') return false;
  throw failure(`making ${target} read-only`);
}

/**
 * Protects this process from the command, which has the same user id: it cannot be traced, and its
 * files in /proc cannot be opened (ptrace(2), "Ptrace access mode checking").
 */
export function becomeUntraceable(): void {
  check('prctl(PR_SET_DUMPABLE)', prctl(prctls.setDumpable, 0, 0, 0, 0));
}

/**
 * Makes sure that no later child has or gains a capability: not by a set-user-ID program, not by
 * file capabilities, and not as user 0. This process keeps its own capabilities, so that the
 * command cannot trace it.
 */
export function dropPrivilegesOfChildren(): void {
  for (let capability = 0; capability <= highestCapability; capability++) {
    // The kernel refuses capabilities that it does not know.
    if (prctl(prctls.dropBounding, capability, 0, 0, 0) === 0) continue;
    if (errnoName() !== 'EINVAL') throw failure('dropping the bounding set');
    break;
  }
  check('clearing ambient capabilities', prctl(prctls.ambient, ambientClearAll, 0, 0, 0));
  const header = Buffer.alloc(8);
  header.writeUInt32LE(capabilityVersion, 0);
  const sets = Buffer.alloc(24);
  check('capget', capget(header, sets));
  // Clears the inheritable set of both 32-bit groups; each group contains the effective, the
  // permitted and the inheritable set.
  sets.writeUInt32LE(0, 8);
  sets.writeUInt32LE(0, 20);
  check('capset', capset(header, sets));
  check('prctl(PR_SET_NO_NEW_PRIVS)', prctl(prctls.noNewPrivileges, 1, 0, 0, 0));
}

/** Installs a filter for the system calls of this thread and of all later children. */
export function installFilter(program: Buffer): void {
  koffi.struct('sallyport_filter', { length: 'unsigned short', code: 'void *' });
  const filter = koffi.as({ length: program.length / 8, code: program }, 'sallyport_filter *');
  check('prctl(PR_SET_SECCOMP)', prctlPointer(prctls.seccomp, seccompFilter, filter));
}

/** Leaves the keyring of the login session, whose keys the command could otherwise use. */
export function leaveSessionKeyring(): void {
  const number = keyctl[process.arch];
  if (number === undefined || syscallPair(number, joinSessionKeyring, 0) >= 0) return;
  if (errnoName() !== 'ENOSYS') throw failure('leaving the session keyring');
}

/** Closes every descriptor except 0, 1 and 2 in later children. */
export function keepDescriptorsFromChildren(): void {
  for (const name of fs.readdirSync('/proc/self/fd')) {
    if (Number(name) > 2) fcntl(Number(name), setFlags, closeOnExec);
  }
}

/**
 * Reaps processes whose parents ended and that became children of this process (process 1). Does
 * not reap `own`.
 */
export function reapOrphans(own: number | undefined): void {
  const info = Buffer.alloc(128);
  const options = waitOptions.noHang | waitOptions.exited | waitOptions.noWait;
  for (;;) {
    info.fill(0);
    if (waitid(0, 0, info, options) !== 0) return;
    const pid = info.readInt32LE(pidOffset);
    if (pid === 0 || pid === own) return;
    waitpid(pid, Buffer.alloc(4), waitOptions.noHang);
  }
}

function check(what: string, result: number): void {
  if (result !== 0) throw failure(what);
}

function errnoName(): string {
  return getSystemErrorName(-koffi.errno());
}

function failure(what: string): IsolationError {
  const reason = getSystemErrorMessage(-koffi.errno());
  return new IsolationError('run.isolation_failed', `${what}: ${reason}.`);
}
