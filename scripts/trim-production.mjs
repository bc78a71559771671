// Removes about 130 MB that an installation without development dependencies never reads: the C
// headers of the `node` package (nothing here is compiled), and Prisma's runtimes for other databases.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const modules = fileURLToPath(new URL('../node_modules/', import.meta.url));
const entries = (folder) => (existsSync(folder) ? readdirSync(folder) : []);

if (!existsSync(`${modules}prisma`)) {
  const builds = `${modules}node/node_modules/`;
  for (const build of entries(builds)) {
    if (build.startsWith('node-')) {
      rmSync(`${builds}${build}/include`, { recursive: true, force: true });
    }
  }
  const runtimes = `${modules}@prisma/client/runtime/`;
  for (const file of entries(runtimes)) {
    const isUsed = /^(client|query_compiler_fast_bg\.postgresql)\./.test(file);
    if (!isUsed || file.endsWith('.map')) rmSync(`${runtimes}${file}`);
  }
}
