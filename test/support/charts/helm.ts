import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { chartFolder } from '../../../scripts/chart/chart-files.ts';
import { goPackage } from '../programs/go.ts';

const run = promisify(execFile);

/**
 * Time limit for building Helm, which takes minutes but is necessary only once for each version.
 */
export const helmBuildMs = 1_800_000;

export function installHelm(): Promise<string> {
  return goPackage('helm.sh/helm/v3/cmd/helm', 'v3.22.0', '1.25.0');
}

/** A resource that a chart renders. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: the schemas of Kubernetes check it
  readonly [field: string]: any;
}

export type Values = Readonly<Record<string, unknown>>;

interface Rendered {
  readonly text: string;
  readonly manifests: readonly Manifest[];
}

interface RenderOptions {
  readonly kubeVersion?: string | undefined;
  /** Values files. `values` overrides them. */
  readonly files?: readonly string[];
}

/** Renders the chart as `helm install sallyport -n gateway` would, without a cluster. */
export async function render(
  helm: string,
  values: Values,
  options: RenderOptions & { readonly folder: string },
): Promise<Rendered> {
  const args = ['template', 'sallyport', chartFolder, '--namespace', 'gateway'];
  const version = ['--kube-version', options.kubeVersion ?? '1.37.0'];
  const given = valueArguments(values, options);
  const { stdout } = await run(helm, [...args, ...version, ...given], {
    maxBuffer: 64 * 1024 ** 2,
  });
  const documents = parseAllDocuments(stdout).map((one) => one.toJSON() as Manifest | null);
  return { text: stdout, manifests: documents.filter((one) => one !== null) };
}

/** Returns Helm's error message for values that it refuses; fails if Helm accepts them. */
export async function refusal(
  helm: string,
  values: Values,
  options: RenderOptions & { readonly folder: string },
): Promise<string> {
  return render(helm, values, options).then(
    ({ text }) => {
      throw new Error(`Helm accepted ${JSON.stringify(values)}:\n${text.slice(0, 2_000)}`);
    },
    (error: { readonly stderr: string }) => error.stderr,
  );
}

/** Returns the output of `helm lint --strict`; fails if there is a warning. */
export async function lint(
  helm: string,
  values: Values,
  options: RenderOptions & { readonly folder: string },
): Promise<string> {
  const given = valueArguments(values, options);
  const version = ['--kube-version', options.kubeVersion ?? '1.37.0'];
  const { stdout } = await run(helm, ['lint', '--strict', ...version, chartFolder, ...given]);
  return stdout;
}

let files = 0;

function valueArguments(
  values: Values,
  { files: given = [], folder }: RenderOptions & { readonly folder: string },
): string[] {
  files += 1;
  const file = join(folder, `values-${files}.json`);
  writeFileSync(file, JSON.stringify(values));
  return [...given, file].flatMap((path) => ['--values', path]);
}
