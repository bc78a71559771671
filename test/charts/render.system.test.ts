import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { helmBuildMs, type Manifest } from '../support/charts/helm.ts';
import { podProblems, podsOf } from '../support/charts/pods.ts';
import { findProgram } from '../support/programs/programs.ts';
import { pythonWith } from '../support/programs/python.ts';
import { Cleanup, temporaryFolder } from '../support/sidecar/proxy.ts';
import { cases } from './cases.ts';
import { type ChartStage, openChartStage } from './stage.ts';

const run = promisify(execFile);
const here = import.meta.dirname;
const versions = ['1.31', '1.32', '1.33', '1.34', '1.35', '1.36', '1.37'];
/** Kinds that operators define. The schemas of Kubernetes do not have them. */
const customKinds = ['HTTPRoute', 'PodMonitor', 'PrometheusRule', 'ServiceMonitor'];

let stage: ChartStage;
const cleanup = new Cleanup();
const rendered = new Map<string, readonly Manifest[]>();
beforeAll(async () => {
  stage = await openChartStage();
  for (const { title, base, values } of cases) {
    rendered.set(title, (await stage.render(base, values)).manifests);
  }
}, helmBuildMs);
afterAll(async () => {
  await stage?.close();
  await cleanup.run();
});

const manifestsOf = (title: string) => rendered.get(title) ?? [];
const only = (title: string, kind: string) =>
  manifestsOf(title).filter((manifest) => manifest.kind === kind);

it('the chart passes helm lint --strict with each set of values and with the default values', async () => {
  for (const { base, values } of cases) {
    expect(await stage.lint(base, values)).toContain('0 chart(s) failed');
  }
  expect(await stage.lint('none', {})).toContain('0 chart(s) failed');
});

it('the chart renders manifests that are valid in each supported version of Kubernetes', async () => {
  const python = await pythonWith(join(here, 'requirements.txt'));
  const jobs = new Map<string, object>();
  for (const { title, since = versions[0] ?? '' } of cases) {
    for (const manifest of manifestsOf(title)) {
      if (customKinds.includes(manifest.kind)) continue;
      for (const version of versions.slice(versions.indexOf(since))) {
        jobs.set(`${version} ${JSON.stringify(manifest)}`, {
          title: `${title}: ${manifest.kind} ${manifest.metadata.name}`,
          version,
          manifest,
        });
      }
    }
  }
  expect(jobs.size).toBeGreaterThan(500);
  const wrong = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'wrong' },
    spec: { port: 1 },
  };
  for (const version of versions) jobs.set(version, { title: 'wrong', version, manifest: wrong });
  const file = join(temporaryFolder(cleanup), 'jobs.json');
  writeFileSync(file, JSON.stringify([...jobs.values()]));
  const { stdout } = await run('sh', [
    '-c',
    '"$0" "$1" < "$2"',
    python,
    join(here, 'validate.py'),
    file,
  ]);
  const problems = JSON.parse(stdout) as string[];
  const isWrong = (problem: string) => problem.startsWith('wrong, ');
  // For each version, the validator reports the manifest with the unknown field.
  expect(problems.filter(isWrong)).toHaveLength(versions.length);
  expect(problems.filter((problem) => !isWrong(problem))).toEqual([]);
}, 600_000);

describe.each(cases)('with $title, the chart', ({ title, base, values }) => {
  it('creates only pods that the restricted Pod Security Standard admits', () => {
    const pods = podsOf(manifestsOf(title));
    expect(pods.length).toBeGreaterThan(0);
    expect(pods.flatMap(podProblems)).toEqual([]);
  });

  it('creates no Secret with content, and renders the same manifests each time', async () => {
    const filled = only(title, 'Secret').filter(({ data, stringData }) => data ?? stringData);
    expect(filled).toEqual([]);
    expect((await stage.render(base, values)).manifests).toEqual(manifestsOf(title));
  });

  it('gives each resource a unique name, and Services and workloads names of at most 63 characters', () => {
    const manifests = manifestsOf(title);
    const ids = manifests.map(({ kind, metadata: { name } }) => `${kind}/${name}`);
    expect(new Set(ids).size).toBe(ids.length);
    const short = ['Deployment', 'Job', 'Pod', 'Service', 'StatefulSet'];
    for (const { kind, metadata } of manifests) {
      if (short.includes(kind)) expect(metadata.name.length).toBeLessThanOrEqual(63);
    }
  });

  it('selects the pods of exactly one component in each Service, PodDisruptionBudget and NetworkPolicy', () => {
    const pods = podsOf(manifestsOf(title));
    for (const kind of ['Service', 'PodDisruptionBudget', 'NetworkPolicy']) {
      for (const { spec, metadata } of only(title, kind)) {
        const wanted = selectorOf(kind, spec);
        const selected = pods.filter(({ labels }) => matches(labels, wanted));
        expect(
          selected.map(({ owner }) => owner),
          `${kind} ${metadata.name}`,
        ).toHaveLength(1);
      }
    }
  });
});

// biome-ignore lint/suspicious/noExplicitAny: the schemas of Kubernetes check it
function selectorOf(kind: string, spec: any): Readonly<Record<string, string>> {
  if (kind === 'Service') return spec.selector;
  return kind === 'NetworkPolicy' ? spec.podSelector.matchLabels : spec.selector.matchLabels;
}

function matches(
  labels: Readonly<Record<string, string>>,
  wanted: Readonly<Record<string, string>>,
): boolean {
  return Object.entries(wanted).every(([name, value]) => labels[name] === value);
}

describe('the control plane', () => {
  const environmentOf = (title: string) => {
    const [deployment] = only(title, 'Deployment').filter(
      ({ metadata }) => metadata.labels?.['app.kubernetes.io/component'] === 'control-plane',
    );
    const [container] = deployment?.spec.template.spec.containers ?? [];
    return new Map<string, string>(
      container.env.map(({ name, value }: { name: string; value?: string }) => [name, value]),
    );
  };

  it('gets its secrets as files', () => {
    const environment = environmentOf('external stores');
    expect(environment.get('DATABASE_URL_FILE')).toBe('/run/secrets/sallyport/database-url');
    expect(environment.get('REDIS_URL_FILE')).toBe('/run/secrets/sallyport/redis-url');
    expect(environment.get('SALLYPORT_MASTER_KEY_FILE')).toBe('/run/secrets/sallyport/master-key');
    expect(environment.has('DATABASE_URL')).toBe(false);
  });

  it('gets the previous master key during a rotation, and the settings of a KMS that is in use', () => {
    const rotation = environmentOf('a rotation of the master key');
    expect(rotation.get('SALLYPORT_MASTER_KEY_PREVIOUS_FILE')).toMatch(/master-key-previous$/);
    const moved = environmentOf('a move of the master key to Vault');
    expect(moved.has('SALLYPORT_MASTER_KEY_FILE')).toBe(false);
    expect(moved.get('SALLYPORT_KMS_TOKEN_FILE')).toBe('/run/secrets/sallyport/kms-token');
    const away = environmentOf('a move of the master key away from Vault');
    expect(away.get('SALLYPORT_MASTER_KEY_FILE')).toMatch(/master-key$/);
    expect(away.get('SALLYPORT_KMS_KEY')).toMatch(/^vault:/);
    const aws = environmentOf('AWS KMS with a session and an endpoint');
    expect([...aws.keys()]).toEqual(
      expect.arrayContaining(['AWS_ACCESS_KEY_ID', 'AWS_SESSION_TOKEN', 'AWS_ENDPOINT_URL_KMS']),
    );
  });

  it('gets the password of the evaluation database as a variable, before the URL that refers to it', () => {
    const names = [...environmentOf('evaluation').keys()];
    expect(names.indexOf('POSTGRES_PASSWORD')).toBeLessThan(names.indexOf('DATABASE_URL'));
    expect(environmentOf('evaluation').get('DATABASE_URL')).toBe(
      'postgresql://sallyport:$(POSTGRES_PASSWORD)@sallyport-postgres:5432/sallyport',
    );
  });

  it('gets large numbers without an exponent, and issuers as JSON', () => {
    const settings = environmentOf('settings as numbers and text');
    expect(settings.get('SALLYPORT_CHECKPOINT_EVENTS')).toBe('1000000');
    const issuers = environmentOf('workload tokens of other clusters only');
    expect(JSON.parse(issuers.get('SALLYPORT_OIDC_ISSUERS') ?? '')).toEqual([
      { issuer: "https://oidc.example/o'neil", jwks_file: '/etc/jwks.json' },
    ]);
    const cluster = environmentOf('an annotated service account with token review');
    expect(JSON.parse(cluster.get('SALLYPORT_OIDC_ISSUERS') ?? '')).toEqual([
      {
        issuer: 'https://kubernetes.default.svc.cluster.local',
        jwks_url: 'https://kubernetes.default.svc/openid/v1/jwks',
        ca_file: '/run/secrets/cluster/ca.crt',
        token_file: '/run/secrets/cluster/token',
        token_review: {
          url: 'https://kubernetes.default.svc',
          ca_file: '/run/secrets/cluster/ca.crt',
          token_file: '/run/secrets/cluster/token',
        },
      },
    ]);
  });

  it('has no number of replicas if a HorizontalPodAutoscaler sets this number', () => {
    const [deployment] = only('every production option', 'Deployment').filter(
      ({ metadata }) => metadata.name === 'sallyport',
    );
    expect(deployment?.spec.replicas).toBeUndefined();
    expect(only('every production option', 'HorizontalPodAutoscaler')).toHaveLength(1);
  });

  it('has its external database migrated by a hook before install and upgrade, unless the Job is disabled', () => {
    const [job] = only('external stores', 'Job');
    expect(job?.metadata.annotations?.['helm.sh/hook']).toBe('pre-install,pre-upgrade');
    expect(only('no migration Job', 'Job')).toEqual([]);
    expect(only('evaluation', 'Job')).toEqual([]);
  });
});

describe('custom resources', () => {
  const title = 'every production option';

  it('include alerts that Prometheus accepts', async () => {
    const promtool = await findProgram(['promtool'], 'prometheus');
    const [rule] = only(title, 'PrometheusRule');
    const file = join(temporaryFolder(cleanup), 'rules.yaml');
    // Every JSON document is a YAML document.
    writeFileSync(file, JSON.stringify(rule?.spec));
    const { stdout } = await run(promtool, ['check', 'rules', file]);
    expect(stdout).toMatch(/SUCCESS: [1-9]\d* rules found/);
  });

  it('include a ServiceMonitor that selects one Service and uses the job name of the alerts', () => {
    const [monitor] = only(title, 'ServiceMonitor');
    const wanted = monitor?.spec.selector.matchLabels;
    const services = only(title, 'Service').filter(({ metadata }) =>
      matches(metadata.labels ?? {}, wanted),
    );
    expect(services).toHaveLength(1);
    const [service] = services;
    expect(service?.metadata.labels?.[monitor?.spec.jobLabel]).toBe('sallyport-control-plane');
    const ports = service?.spec.ports.map(({ name }: { name: string }) => name);
    expect(ports).toContain(monitor?.spec.endpoints[0].port);
  });

  it('include a PodMonitor of the sidecars that uses the job name of the alerts', () => {
    const [monitor] = only(title, 'PodMonitor');
    const [endpoint] = monitor?.spec.podMetricsEndpoints ?? [];
    expect(endpoint).toMatchObject({ port: 'sallyport-admin', path: '/metrics', interval: '1m' });
    expect(endpoint.relabelings).toEqual([
      { action: 'replace', targetLabel: 'job', replacement: 'sallyport-sidecar' },
    ]);
  });

  it('include an HTTPRoute to the Service of the API', () => {
    const [route] = only(title, 'HTTPRoute');
    expect(route?.apiVersion).toBe('gateway.networking.k8s.io/v1');
    expect(route?.spec).toMatchObject({
      parentRefs: [{ name: 'public', namespace: 'gateways', sectionName: 'https' }],
      hostnames: ['sallyport.example'],
      rules: [{ backendRefs: [{ name: 'sallyport', port: 8080 }] }],
    });
  });

  it('include the dashboard of deploy/grafana in a ConfigMap', () => {
    const [dashboard] = only(title, 'ConfigMap').filter(({ data }) => 'sallyport.json' in data);
    expect(JSON.parse(dashboard?.data['sallyport.json'])).toHaveProperty('panels');
  });
});
