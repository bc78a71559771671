// linux/filter.h, linux/seccomp.h, linux/audit.h, asm/unistd.h.
const loadWord = 0x20;
const jumpIfEqual = 0x15;
const jumpIfGreaterOrEqual = 0x35;
const answer = 0x06;
const allow = 0x7fff_0000;
const killProcess = 0x8000_0000;
const errnoAnswer = 0x0005_0000;
const offsets = { number: 0, architecture: 4, firstArgument: 16, secondArgument: 24 } as const;
const errno = { notPermitted: 1, notImplemented: 38, familyUnsupported: 97 } as const;

interface Architecture {
  readonly id: number;
  readonly socket: number;
  readonly ioctl: number;
}

const architectures: Readonly<Record<string, Architecture>> = {
  x64: { id: 0xc000_003e, socket: 41, ioctl: 16 },
  arm64: { id: 0xc000_00b7, socket: 198, ioctl: 29 },
};
/** The numbers of system calls of the x32 ABI have this bit. */
const x32Bit = 0x4000_0000;
/** Requests to io_uring could create sockets without the system call `socket`. */
const ioUringSetup = 425;
/**
 * The allowed families: UNIX, INET, INET6, NETLINK. From any network namespace, sockets of other
 * families reach devices or the host of a virtual machine.
 */
const socketFamilies = [1, 2, 10, 16];
/**
 * Requests of `ioctl` that put input into the terminal. The user's shell would read this input
 * after the command ended.
 */
const terminalInjections = [0x5412, 0x541c];

interface Instruction {
  readonly code: number;
  readonly value: number;
  readonly ifTrue?: number;
  readonly ifFalse?: number;
}

/** A seccomp program as bytes; undefined for a machine whose system calls are not known here. */
export function systemCallFilter(machine: string): Buffer | undefined {
  const architecture = architectures[machine];
  if (architecture === undefined) return undefined;
  return encode([
    { code: loadWord, value: offsets.architecture },
    { code: jumpIfEqual, value: architecture.id, ifTrue: 1 },
    // A 32-bit program could open sockets with system calls whose arguments a filter cannot read.
    { code: answer, value: killProcess },
    { code: loadWord, value: offsets.number },
    { code: jumpIfGreaterOrEqual, value: x32Bit, ifFalse: 1 },
    { code: answer, value: errnoAnswer | errno.notImplemented },
    { code: jumpIfEqual, value: ioUringSetup, ifFalse: 1 },
    { code: answer, value: errnoAnswer | errno.notImplemented },
    ...guarded(architecture.socket, offsets.firstArgument, {
      values: socketFamilies,
      ifListed: allow,
      otherwise: errnoAnswer | errno.familyUnsupported,
    }),
    ...guarded(architecture.ioctl, offsets.secondArgument, {
      values: terminalInjections,
      ifListed: errnoAnswer | errno.notPermitted,
      otherwise: allow,
    }),
    { code: answer, value: allow },
  ]);
}

/** Decides one system call by the low 32 bits of an argument, as the kernel reads it. */
function guarded(
  number: number,
  offset: number,
  {
    values,
    ifListed,
    otherwise,
  }: { readonly values: readonly number[]; readonly ifListed: number; readonly otherwise: number },
): Instruction[] {
  const body: Instruction[] = [
    { code: loadWord, value: offset },
    ...values.map((value, index) => ({
      code: jumpIfEqual,
      value,
      ifTrue: values.length - index,
    })),
    { code: answer, value: otherwise },
    { code: answer, value: ifListed },
  ];
  return [{ code: jumpIfEqual, value: number, ifFalse: body.length }, ...body];
}

function encode(instructions: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(instructions.length * 8);
  instructions.forEach(({ code, value, ifTrue = 0, ifFalse = 0 }, index) => {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(ifTrue, index * 8 + 2);
    bytes.writeUInt8(ifFalse, index * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, index * 8 + 4);
  });
  return bytes;
}
