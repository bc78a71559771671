import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { json, text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { guard } from '../../injector/guard/guard.ts';
import { injectPod } from '../../injector/pod/inject.ts';
import { parseInjection } from '../../injector/pod/injection.ts';
import type { Pod } from '../../injector/pod/pod.ts';
import { parseReview } from '../../injector/server/review.ts';
import { type ChartStage, openChartStage } from '../charts/stage.ts';
import { helmBuildMs, type Manifest } from '../support/charts/helm.ts';
import { injection } from '../support/injector/injection.ts';
import { goModule } from '../support/programs/go.ts';
import { changeCases } from './changes.ts';
import { container, pod } from './pod-case.ts';
import { podCases } from './pods.ts';
import { type Request, review } from './review.ts';

/** Time limit of a first build of the API server's packages: about four minutes of processor time. */
const buildMs = helmBuildMs;
/** The oldest Kubernetes version that the chart supports; it does not compile newer CEL functions. */
const oldestVersion = '1.31';

let stage: ChartStage;
let program: string;
let policies: Policies;
beforeAll(async () => {
  program = await goModule(join(import.meta.dirname, '../support/go/policies'));
  stage = await openChartStage();
  policies = await renderedPolicies({});
}, buildMs);
afterAll(() => stage?.close());

interface Policies {
  readonly mutating: readonly Manifest[];
  readonly validating: readonly Manifest[];
}

interface Result {
  readonly object: Pod;
  readonly refusals: readonly string[];
  readonly errors: readonly string[];
}

async function renderedPolicies(values: Readonly<Record<string, unknown>>): Promise<Policies> {
  const { manifests } = await stage.render('external', { injector: { mode: 'policy' }, ...values });
  const ofKind = (kind: string) => manifests.filter((one) => one.kind === kind);
  return {
    mutating: ofKind('MutatingAdmissionPolicy'),
    validating: ofKind('ValidatingAdmissionPolicy'),
  };
}

interface PolicyRequest extends Request {
  readonly namespace?: string;
}

/** Evaluates the requests under these policies with the code of the API server. */
async function evaluate(
  requests: readonly PolicyRequest[],
  { mutating, validating }: Policies = policies,
): Promise<readonly Result[]> {
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'pipe'] });
  const given = requests.map(({ namespace = 'enabled', subResource, ...rest }) => ({
    ...rest,
    subresource: subResource,
    namespaceLabels: { 'sallyport.io/inject': namespace },
  }));
  child.stdin.end(
    JSON.stringify({ guardVersion: oldestVersion, mutating, validating, requests: given }),
  );
  const failure = text(child.stderr);
  return (await json(child.stdout).catch(async () => {
    throw new Error(await failure);
  })) as readonly Result[];
}

/** Returns the refusal messages of the webhook's guard. */
function refusalsOf(request: PolicyRequest): readonly string[] {
  const options = { injection, mayExempt: request.namespace !== 'required' };
  return guard(parseReview(review(request)).request, options).map(({ message }) => message);
}

/** Returns the value without the empty members that Go writes for absent values. */
function compact(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(compact);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value)
    .map(([name, member]) => [name, compact(member)] as const)
    .filter(([name, member]) => name === 'emptyDir' || !isEmpty(member));
  return Object.fromEntries(members);
}

function isEmpty(value: unknown): boolean {
  return (
    value === null || value === '' || (typeof value === 'object' && Object.keys(value).length === 0)
  );
}

describe('the admission policies of the chart', () => {
  it('produce the same pods as the webhook, even if they are applied twice', async () => {
    const requests = podCases.map(({ pod, namespace = 'enabled' }) => ({
      operation: 'CREATE' as const,
      namespace,
      object: pod,
    }));
    const once = await evaluate(requests);
    const twice = await evaluate(
      requests.map((request, index) => ({ ...request, object: once[index]?.object })),
    );
    for (const [index, { pod, title }] of podCases.entries()) {
      const expected = compact(injectPod(pod, injection));
      expect.soft(once[index]?.errors, title).toEqual([]);
      expect.soft(compact(once[index]?.object), title).toEqual(expected);
      expect.soft(compact(twice[index]?.object), title).toEqual(expected);
    }
  });

  it('stay within the API server’s evaluation budget for a large pod', async () => {
    const env = Array.from({ length: 200 }, (_, index) => ({ name: `V${index}`, value: 'x' }));
    const containers = Array.from({ length: 30 }, (_, index) =>
      container({ name: `agent-${index}`, env }),
    );
    const object = pod({ spec: { containers, initContainers: [container({ name: 'a', env })] } });
    const [result] = await evaluate([{ operation: 'CREATE', object }]);
    expect(result?.errors).toEqual([]);
    expect(result?.refusals).toEqual([]);
    expect(compact(result?.object)).toEqual(compact(injectPod(object, injection)));
  });

  it('refuse the same new pods with the same messages as the webhook', async () => {
    const requests = podCases.map(({ pod, namespace = 'enabled' }) => ({
      operation: 'CREATE' as const,
      namespace,
      object: injectPod(pod, injection),
    }));
    const results = await evaluate(requests);
    for (const [index, request] of requests.entries()) {
      const { title } = podCases[index] ?? {};
      expect.soft(results[index]?.errors, title).toEqual([]);
      expect.soft(results[index]?.refusals, title).toEqual(refusalsOf(request));
    }
  });

  it('refuse the same changes, debug containers and commands as the webhook', async () => {
    // Only the guard is evaluated, because a mutation would repair manipulated pods.
    const guardOnly = { ...policies, mutating: [] };
    const results = await evaluate(
      changeCases.map(({ request }) => request),
      guardOnly,
    );
    for (const [index, { title, request }] of changeCases.entries()) {
      expect.soft(results[index]?.errors, title).toEqual([]);
      expect.soft(results[index]?.refusals, title).toEqual(refusalsOf(request));
    }
  });

  it('apply changed sidecar settings as the webhook does', async () => {
    const values = {
      sidecar: {
        uid: 4321,
        transparentPort: 25_001,
        dnsPort: 25_053,
        holdTime: 0,
        controlPlaneUrl: 'https://sallyport.example',
        redis: { existingSecret: '', url: 'rediss://redis.example:6380' },
        resources: { requests: { cpu: '1' }, limits: null },
        settings: { SALLYPORT_ALLOW_PRIVATE: '10.0.0.0/8', SALLYPORT_MAX_TUNNELS: 7 },
      },
    };
    const { manifests } = await stage.render('external', values);
    const config = manifests.find(
      ({ kind, data }) => kind === 'ConfigMap' && data['injection.json'],
    );
    const settings = parseInjection(config?.data['injection.json']);
    const other = await renderedPolicies(values);
    const requests = podCases.map(({ pod }) => ({ operation: 'CREATE' as const, object: pod }));
    const results = await evaluate(requests, other);
    for (const [index, { pod, title }] of podCases.entries()) {
      const expected = injectPod(pod, settings);
      expect.soft(compact(results[index]?.object), title).toEqual(compact(expected));
      const problems = guard(
        { kind: 'create', pod: expected },
        { injection: settings, mayExempt: true },
      );
      expect.soft(results[index]?.refusals, title).toEqual(problems.map(({ message }) => message));
    }
  });
});

it('the chart gives the webhook the same settings that these tests use', async () => {
  const { manifests } = await stage.render('external', {});
  const config = manifests.find(({ kind, data }) => kind === 'ConfigMap' && data['injection.json']);
  expect(parseInjection(config?.data['injection.json'])).toEqual(injection);
});
