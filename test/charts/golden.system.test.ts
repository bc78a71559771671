import { afterAll, beforeAll, expect, it } from 'vitest';
import { helmBuildMs } from '../support/charts/helm.ts';
import { type ChartStage, openChartStage } from './stage.ts';

let stage: ChartStage;
beforeAll(async () => {
  stage = await openChartStage();
}, helmBuildMs);
afterAll(() => stage?.close());

// To update the golden files: `npm run test:system -- test/charts/golden.system.test.ts -u`.
it.each(['external', 'evaluation', 'production'])(
  'the chart with the %s values renders the content of the golden file',
  async (base) => {
    const off = { metrics: { prometheusRule: { enabled: false }, dashboard: { enabled: false } } };
    const { text } = await stage.render(base, off);
    await expect(text).toMatchFileSnapshot(`golden/${base}.yaml`);
  },
);
