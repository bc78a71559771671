import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { type OutputChunk, rolldown } from 'rolldown';
import {
  absentPackages,
  type BundledProgram,
  copiedPackages,
  nativePackages,
  programs,
  queryCompiler,
  replacedModules,
  sourceFiles,
} from './programs.ts';
import { sourcePaths } from './source-paths.ts';

const root = join(import.meta.dirname, '../..');

/** A package whose code is in the bundle. */
export interface BundledPackage {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

interface BundleOptions {
  readonly architecture: keyof typeof nativePackages;
  /** The folder whose `node_modules` has the native packages of the architecture. */
  readonly nativeFrom: string;
}

const ofThisMachine: BundleOptions = {
  architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
  nativeFrom: root,
};

/** Bundles all programs into a folder, which is replaced. Returns the packages in it. */
export async function bundle(
  folder: string,
  { architecture, nativeFrom }: BundleOptions = ofThisMachine,
): Promise<readonly BundledPackage[]> {
  rmSync(folder, { recursive: true, force: true });
  const modules = new Set<string>();
  for (const program of programs) {
    for (const id of await bundleProgram(program, folder)) modules.add(id);
    writeFileSync(join(folder, `${program.name}.cjs`), startFile(program));
  }
  for (const path of globSync(sourceFiles, { cwd: root })) {
    copy(join(root, path), join(folder, 'files', path));
  }
  const copies = [
    ...copyPackages(copiedPackages, root, folder),
    ...copyPackages(nativePackages[architecture], nativeFrom, folder),
  ];
  for (const id of copies) modules.add(id);
  const { wasm } = (await import(queryCompiler)) as { readonly wasm: string };
  mkdirSync(join(folder, 'files/scripts/bundle'), { recursive: true });
  writeFileSync(join(folder, 'files/scripts/bundle/query-compiler.wasm'), wasm, 'base64');
  copy(join(import.meta.dirname, 'load.cjs'), join(folder, 'load.cjs'));
  const folders = [...new Set([...modules].flatMap(packageFolder))].sort();
  const packages = folders.map(readPackage);
  writeFileSync(join(folder, 'packages.json'), `${JSON.stringify(packages, undefined, 2)}\n`);
  writeFileSync(join(folder, 'LICENSES.txt'), folders.map(licenseOf).join('\n'));
  return packages;
}

function startFile({ name, v8Flags = [] }: BundledProgram): string {
  return `require('./load.cjs').run('${name}', ${JSON.stringify(v8Flags)});\n`;
}

function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(from, to);
  // Packages may mark files as executable that are no programs.
  chmodSync(to, 0o644);
}

/** Copies files of packages from one `node_modules` to another; returns a path in each package. */
function copyPackages(
  packages: Readonly<Record<string, readonly string[]>>,
  from: string,
  to: string,
): string[] {
  return Object.entries(packages).map(([name, files]) => {
    const path = join('node_modules', name);
    for (const file of files) copy(join(from, path, file), join(to, path, file));
    return join(from, path, 'package.json');
  });
}

/** Returns the paths of the modules whose code the bundle contains. */
async function bundleProgram(program: BundledProgram, folder: string): Promise<string[]> {
  const bundled = await rolldown({
    cwd: root,
    input: { main: join(root, program.entry) },
    platform: 'node',
    external: [...Object.keys(copiedPackages), ...absentPackages],
    plugins: [sourcePaths({ root, entry: program.entry, replaced: replacedModules })],
    onLog(level, log) {
      if (level === 'warn') throw new Error(`${program.name}: ${log.message}`);
    },
  });
  const { output } = await bundled.generate({
    format: 'cjs',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    // The files are not loaded as Node modules, so `import()` would not work in them.
    dynamicImportInCjs: false,
    comments: false,
    // Names are kept, because stack traces and errors show them.
    minify: { compress: true, mangle: false, codegen: { removeWhitespace: true } },
  });
  await bundled.close();
  mkdirSync(join(folder, program.name), { recursive: true });
  const chunks = output.filter((item): item is OutputChunk => item.type === 'chunk');
  for (const { fileName, code } of chunks) {
    writeFileSync(join(folder, program.name, fileName), wrapped(code));
  }
  return chunks.flatMap(({ modules }) =>
    Object.entries(modules).flatMap(([id, { renderedLength }]) => (renderedLength > 0 ? id : [])),
  );
}

/**
 * Wraps the code in a function with the parameters of a CommonJS module. Escapes all characters
 * outside ASCII, because V8 needs twice the memory for a source text that contains one of them.
 */
function wrapped(code: string): string {
  const ascii = code
    .replace(/^#!.*\n/, '')
    .replace(
      /[\u0080-\uffff]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
  return `(function (exports, require, module, __filename, __dirname) {${ascii}\n})`;
}

/** The folder of the package that a module belongs to; empty for modules of this repository. */
function packageFolder(id: string): string[] {
  const folder = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id.replaceAll('\0', ''))?.[1];
  return folder === undefined ? [] : [folder];
}

function readPackage(folder: string): BundledPackage {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return { name, version, license };
}

function licenseOf(folder: string): string {
  const { name, version, license } = readPackage(folder);
  const texts = globSync('{LICEN[CS]E,NOTICE,COPYING}*', { cwd: folder })
    .filter((file) => !file.endsWith('.js'))
    .sort()
    .map((file) => readFileSync(join(folder, file), 'utf8').trim());
  return [`${'='.repeat(80)}\n${name} ${version} (${license})\n`, ...texts, ''].join('\n');
}

interface Compilation {
  /** The folder of the bundle. */
  readonly folder: string;
  /** The Node that will run the programs. */
  readonly node: string;
  /** If set, `folder` and `node` are paths in this root directory. */
  readonly root?: string;
}

/**
 * Compiles the programs of a bundle. Starts each program, which then ends because its settings are
 * missing. A fixed seed makes the caches reproducible, but they contain the path of the bundle.
 */
export function compile({ folder, node, root = '/' }: Compilation): void {
  const input = readFileSync(join(import.meta.dirname, 'compile.cjs'));
  for (const { name, nodeFlag } of programs) {
    const flags = ['--random-seed=1', nodeFlag ?? []].flat();
    const command = [node, ...flags, '-', folder, name];
    const [file = '', ...args] = root === '/' ? command : ['chroot', root, ...command];
    const { stdout, stderr } = spawnSync(file, args, {
      input,
      env: { PATH: '/usr/sbin:/usr/bin' },
      cwd: '/',
      encoding: 'utf8',
    });
    if (/^(sallyport: |Usage: sallyport)/m.test(stdout + stderr)) continue;
    throw new Error(`${name} did not start, so it was not compiled: ${stdout}${stderr}`);
  }
}

if (import.meta.main) {
  const folder = join(root, 'dist/bundle');
  const packages = await bundle(folder);
  compile({ folder, node: process.execPath });
  console.log(
    `Bundled ${programs.length} programs and ${packages.length} packages in ${relative('', folder)}/.`,
  );
}
