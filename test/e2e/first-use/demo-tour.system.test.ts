import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DemoStage, startDemoStage } from '../../support/system/demo-stage.ts';

describe('the demo with separate processes on real Postgres and Redis', () => {
  let stage: DemoStage;
  beforeAll(async () => {
    stage = await startDemoStage();
  });
  afterAll(() => stage?.close());

  it('passes every step of the tour', async () => {
    const { succeeded, lines } = await stage.run();
    expect(succeeded, lines.join('\n')).toBe(true);
    expect(lines.filter((line) => line.startsWith('✓'))).toHaveLength(11);
  });
});
