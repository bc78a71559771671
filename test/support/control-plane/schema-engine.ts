import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { PrismaPg } from '@prisma/adapter-pg';
import { bindMigrationAwareSqlAdapterFactory } from '@prisma/driver-adapter-utils';
import type { SchemaEngine } from '@prisma/schema-engine-wasm';
import * as bindings from '@prisma/schema-engine-wasm/schema_engine_bg';

// Node provides `WebAssembly`, but only the type library of browsers declares it.
declare const WebAssembly: {
  instantiate(
    bytes: Uint8Array,
    imports: object,
  ): Promise<{ readonly instance: { readonly exports: Record<string, unknown> } }>;
};

let loaded = false;

/**
 * Instantiates the engine directly, because the package's own entry imports WebAssembly as a
 * module.
 */
async function loadEngine(): Promise<void> {
  if (loaded) return;
  loaded = true;
  const wasmPath = createRequire(import.meta.url)
    .resolve('@prisma/schema-engine-wasm')
    .replace(/schema_engine\.js$/, 'schema_engine_bg.wasm');
  const { instance } = await WebAssembly.instantiate(readFileSync(wasmPath), {
    './schema_engine_bg.js': bindings,
  });
  bindings.__wbg_set_wasm(instance.exports);
  (instance.exports.__wbindgen_start as () => void)();
}

/**
 * Returns the SQL that migrates from one Prisma schema to another, or from an empty database if
 * `before` is missing. Prisma's own engine creates it; the engine requires a connection but does
 * not query it.
 */
export async function schemaSql(
  after: string,
  { databaseUrl, before }: { readonly databaseUrl: string; readonly before?: string },
): Promise<string> {
  await loadEngine();
  const adapter = new PrismaPg({ connectionString: databaseUrl });
  const toTarget = (content: string) => ({
    tag: 'schemaDatamodel' as const,
    files: [{ path: 'schema.prisma', content }],
  });
  const engine: SchemaEngine = await bindings.SchemaEngine.new(
    { datamodels: [['schema.prisma', after]] },
    () => {},
    bindMigrationAwareSqlAdapterFactory(adapter),
  );
  try {
    const result = await engine.diff({
      from: before === undefined ? { tag: 'empty' } : toTarget(before),
      to: toTarget(after),
      script: true,
      exitCode: null,
      filters: { externalTables: [], externalEnums: [] },
    });
    return result.stdout ?? '';
  } finally {
    engine.free();
  }
}
