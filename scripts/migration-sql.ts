// Prints the SQL that migrates the Prisma schema of a commit (default HEAD) to the one in the working
// tree, for the folder of a new migration.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { schemaSql } from '../test/support/control-plane/schema-engine.ts';
import { startPostgres } from '../test/support/programs/postgres.ts';

const schema = 'prisma/schema.prisma';
const before = execFileSync('git', ['show', `${process.argv[2] ?? 'HEAD'}:${schema}`], {
  encoding: 'utf8',
});
const server = await startPostgres();
try {
  const after = readFileSync(schema, 'utf8');
  process.stdout.write(await schemaSql(after, { databaseUrl: server.url, before }));
} finally {
  await server.stop();
}
