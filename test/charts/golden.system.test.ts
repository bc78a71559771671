import { afterAll, beforeAll, expect, it } from 'vitest';
import { helmBuildMs } from '../support/charts/helm.ts';
import { type ChartStage, openChartStage } from './stage.ts';

let stage: ChartStage;
beforeAll(async () => {
  stage = await openChartStage();
}, helmBuildMs);
afterAll(() => stage?.close());

// `npm run test:system -- test/charts/golden.system.test.ts -u` writes the files again.
it.each(['external', 'evaluation', 'production'])(
  'renders the %s values as the golden file',
  async (base) => {
    const off = { metrics: { prometheusRule: { enabled: false }, dashboard: { enabled: false } } };
    const { text } = await stage.render(base, off);
    await expect(text).toMatchFileSnapshot(`golden/${base}.yaml`);
  },
);
