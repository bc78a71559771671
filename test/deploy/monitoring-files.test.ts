import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  boardExpressions,
  deployFolder,
  readAlerts,
  readBoard,
} from '../support/programs/monitoring-files.ts';
import { findProgram } from '../support/programs/programs.ts';
import { Cleanup, temporaryFolder } from '../support/sidecar/proxy.ts';

const run = promisify(execFile);
const folder = join(deployFolder, 'prometheus');
const cleanup = new Cleanup();
let promtool: string;

beforeAll(async () => {
  promtool = await findProgram(['promtool'], 'prometheus');
}, 120_000);
afterAll(() => cleanup.run());

describe('the alert rules', () => {
  it('are accepted by Prometheus', async () => {
    const { stdout } = await run(promtool, ['check', 'rules', 'alerts.yaml'], { cwd: folder });
    expect(stdout).toContain(`${readAlerts().length} rules found`);
  });

  it('fire when their conditions become true, and not earlier', async () => {
    const { stdout } = await run(promtool, ['test', 'rules', 'alerts.test.yaml'], { cwd: folder });
    expect(stdout).toContain('SUCCESS');
  });

  it('each have a severity, a summary, a description and a runbook', () => {
    for (const { alert, labels, annotations } of readAlerts()) {
      expect(alert).toMatch(/^Sallyport[A-Z]/);
      expect(['critical', 'warning', 'info']).toContain(labels.severity);
      expect(Object.keys(annotations).sort()).toEqual(['description', 'runbook', 'summary']);
    }
    expect(new Set(readAlerts().map(({ alert }) => alert)).size).toBe(readAlerts().length);
  });
});

describe('the dashboard', () => {
  it('contains only expressions that Prometheus can parse', async () => {
    const rules = boardExpressions().map((expr, index) => ({ record: `board:${index}`, expr }));
    // Every JSON document is a YAML document.
    const file = join(temporaryFolder(cleanup), 'board.yaml');
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'board', rules }] }));
    const { stdout } = await run(promtool, ['check', 'rules', file]);
    expect(stdout).toContain(`${rules.length} rules found`);
  });

  it('has panels with unique ids that do not overlap', () => {
    const { panels } = readBoard();
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { gridPos, title } of panels) {
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken, `${title} at ${x}, ${y}`).not.toContain(`${x},${y}`);
          taken.add(`${x},${y}`);
        }
      }
    }
  });
});
