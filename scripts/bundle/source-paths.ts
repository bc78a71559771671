import { dirname, relative, resolve } from 'node:path';
import type { Plugin } from 'rolldown';

const form = /\bimport\.meta\.(dirname|url|main)\b/g;

interface SourcePaths {
  readonly root: string;
  /** The program's first file, relative to `root`. */
  readonly entry: string;
  /**
   * Modules to replace, and their replacements: paths relative to `root`, or names of scoped
   * packages' modules.
   */
  readonly replaced: Readonly<Record<string, string>>;
}

/**
 * Makes `import.meta` refer to the source file instead of the bundle: paths lead into `files/`,
 * next to the folders of the programs, and `main` is true in the program's first file only.
 */
export function sourcePaths({ root, entry, replaced }: SourcePaths): Plugin {
  const replacements = new Map(
    Object.entries(replaced).map(([from, to]) => [
      from.startsWith('@') ? from : resolve(root, from),
      resolve(root, to),
    ]),
  );
  return {
    name: 'source-paths',
    resolveId(source, importer) {
      if (importer === undefined) return undefined;
      const isPath = source.startsWith('.');
      return replacements.get(isPath ? resolve(dirname(importer), source) : source);
    },
    transform(code, id) {
      if (id.includes('/node_modules/') || !code.includes('import.meta')) return undefined;
      const path = relative(root, id);
      return code.replace(form, (_, property: string) => {
        if (property === 'main') return String(path === entry);
        const file = (of: string) => `__dirname + ${JSON.stringify(`/../files/${of}`)}`;
        return property === 'dirname'
          ? `(${file(dirname(path))})`
          : `process.getBuiltinModule('node:url').pathToFileURL(${file(path)}).href`;
      });
    },
  };
}
