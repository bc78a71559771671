/** A program of the container image. */
export interface BundledProgram {
  /** The command that starts it. */
  readonly name: string;
  /** The file that it starts with, relative to the repository. */
  readonly entry: string;
  /** A flag that only Node's command line accepts. A shebang line has room for one. */
  readonly nodeFlag?: `--${string}`;
  /** Flags of V8 that are set when the program starts. */
  readonly v8Flags?: readonly `--${string}`[];
}

/** Add a program here; the bundle, the image and its tests read this list. */
export const programs: readonly BundledProgram[] = [
  { name: 'control-plane', entry: 'control-plane/main.ts' },
  {
    name: 'sidecar',
    entry: 'proxy/main.ts',
    nodeFlag: '--max-semi-space-size=16',
    v8Flags: ['--heap-growing-percent=100'],
  },
  { name: 'injector', entry: 'injector/main.ts' },
  { name: 'sallyport', entry: 'cli/main.ts' },
];

/** Prisma's query compiler, WebAssembly in base64. */
export const queryCompiler =
  '@prisma/client/runtime/query_compiler_fast_bg.postgresql.wasm-base64.mjs';

/**
 * Modules that the bundle replaces. The image has no embedded mode, because PGlite is as large as
 * all programs together.
 */
export const replacedModules: Readonly<Record<string, string>> = {
  'cli/embedded/up.ts': 'scripts/bundle/no-embedded-mode.ts',
  'cli/demo/demo.ts': 'scripts/bundle/no-embedded-mode.ts',
  'control-plane/platform/store/embedded.ts': 'scripts/bundle/no-embedded-mode.ts',
  [queryCompiler]: 'scripts/bundle/query-compiler.ts',
};

/** Files that programs read at run time: paths, or patterns, relative to the repository. */
export const sourceFiles: readonly string[] = [
  'prisma/migrations/*/migration.sql',
  'control-plane/policies/packs/*/*.yaml',
  'cli/run/agent-preload.cjs',
];

/** Packages that are copied instead of bundled, and the files of them that programs use. */
export const copiedPackages: Readonly<Record<string, readonly string[]>> = {
  'swagger-ui-dist': [
    'package.json',
    'LICENSE',
    'NOTICE',
    'swagger-ui-bundle.js',
    'swagger-ui.css',
    'favicon-32x32.png',
  ],
  koffi: [
    'package.json',
    'LICENSE.txt',
    'index.cjs',
    'src/koffi/index.cjs',
    'src/koffi/src/static.cjs',
  ],
};

/** Packages of native modules, which `copiedPackages` load, and the files to copy from them. */
export const nativePackages: Readonly<
  Record<'amd64' | 'arm64', Readonly<Record<string, readonly string[]>>>
> = {
  amd64: { '@koromix/koffi-linux-x64': ['package.json', 'index.js', 'linux_x64/koffi.node'] },
  arm64: { '@koromix/koffi-linux-arm64': ['package.json', 'index.js', 'linux_arm64/koffi.node'] },
};

/** Optional imports of packages that the image does not have. */
export const absentPackages: readonly string[] = ['pg-native'];
