// Writes the generated files of charts/sallyport.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { chartFiles, chartFolder } from './chart/chart-files.ts';

for (const [path, content] of Object.entries(chartFiles())) {
  mkdirSync(dirname(join(chartFolder, path)), { recursive: true });
  writeFileSync(join(chartFolder, path), content);
}
