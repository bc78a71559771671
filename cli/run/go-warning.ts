import fs from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

/**
 * The magic bytes at the beginning of the build information that a Go linker adds to a program
 * (debug/buildinfo).
 */
const buildInfoMagic = Buffer.from('\xff Go buildinf:', 'latin1');
const chunkBytes = 1024 * 1024;
const readBytesMax = 256 * chunkBytes;

const advice =
  'Go ignores HTTP_PROXY for localhost and loopback addresses, so calls to them bypass the sidecar. Use another name for the host, such as "localhost." with a dot, and the same name in its binding.';

/**
 * Warns if a command is a Go program, or `go` itself: calls from Go programs to loopback bypass the
 * sidecar.
 */
export function goWarning(
  command: string,
  path: string | undefined = process.env.PATH,
): string | undefined {
  const file = find(command, path);
  if (file === undefined || !isGo(command, file)) return undefined;
  return `sallyport: ${command} is a Go program. ${advice}`;
}

function find(command: string, path = ''): string | undefined {
  const candidates =
    isAbsolute(command) || command.includes('/')
      ? [command]
      : path.split(delimiter).map((folder) => join(folder, command));
  return candidates.find((candidate) =>
    fs.statSync(candidate, { throwIfNoEntry: false })?.isFile(),
  );
}

function isGo(command: string, file: string): boolean {
  if (/(^|\/)go$/.test(command)) return true;
  try {
    return contains(file, buildInfoMagic);
  } catch {
    // Starting the command will report the problem with the file.
    return false;
  }
}

/**
 * True if a file contains the bytes. Chunks overlap, so that a match that spans two chunks is
 * found.
 */
function contains(file: string, wanted: Buffer): boolean {
  const descriptor = fs.openSync(file, 'r');
  try {
    const chunk = Buffer.alloc(chunkBytes);
    for (let at = 0; at < readBytesMax; at += chunkBytes - wanted.length) {
      const length = fs.readSync(descriptor, chunk, 0, chunkBytes, at);
      if (chunk.subarray(0, length).includes(wanted)) return true;
      if (length < chunkBytes) return false;
    }
    return false;
  } finally {
    fs.closeSync(descriptor);
  }
}
