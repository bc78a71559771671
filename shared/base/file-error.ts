const remedies: Readonly<Record<string, string>> = {
  EACCES: 'this user may not use it; change its owner or mode',
  EEXIST: 'it is a file where a folder is expected; move it away',
  EISDIR: 'it is a folder where a file is expected; move it away',
  ENOSPC: 'the disk is full; make room',
  ENOTDIR: 'a part of the path is a file where a folder is expected; move that away',
  EPERM: 'this user may not use it; change its owner or mode',
  EROFS: 'it is on a file system that cannot be written; mount it writable',
};

/**
 * Describes what the operator can do about a file system error; undefined for any other error.
 * `path` is used if the error contains no path.
 */
export function describeFileError(error: unknown, path?: string): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  const { code } = error;
  const remedy = typeof code === 'string' ? remedies[code] : undefined;
  const named = 'path' in error && typeof error.path === 'string' ? error.path : path;
  if (remedy === undefined || named === undefined) return undefined;
  return `${named} cannot be used (${String(code)}): ${remedy}.`;
}
