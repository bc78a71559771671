import { join } from 'node:path';
import { chartFolder } from '../../scripts/chart/chart-files.ts';
import { installHelm, lint, refusal, render, type Values } from '../support/charts/helm.ts';
import { Cleanup, temporaryFolder } from '../support/sidecar/proxy.ts';

/** Runs Helm on the chart with a values file of charts/sallyport/ci. */
export interface ChartStage {
  render(base: string, values: Values, kubeVersion?: string): ReturnType<typeof render>;
  refusal(base: string, values: Values, kubeVersion?: string): Promise<string>;
  lint(base: string, values: Values): Promise<string>;
  close(): Promise<void>;
}

export async function openChartStage(): Promise<ChartStage> {
  const helm = await installHelm();
  const cleanup = new Cleanup();
  const folder = temporaryFolder(cleanup);
  const on = (base: string, kubeVersion?: string) => ({
    folder,
    kubeVersion,
    files: base === 'none' ? [] : [join(chartFolder, 'ci', `${base}-values.yaml`)],
  });
  return {
    render: (base, values, kubeVersion) => render(helm, values, on(base, kubeVersion)),
    refusal: (base, values, kubeVersion) => refusal(helm, values, on(base, kubeVersion)),
    lint: (base, values) => lint(helm, values, on(base)),
    close: () => cleanup.run(),
  };
}
