import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ChartStage, openChartStage } from '../charts/stage.ts';
import { helmBuildMs, type Manifest } from '../support/charts/helm.ts';

let stage: ChartStage;
let byWebhook: readonly Manifest[];
let byPolicy: readonly Manifest[];
beforeAll(async () => {
  stage = await openChartStage();
  byWebhook = (await stage.render('external', { injector: { mode: 'webhook' } })).manifests;
  byPolicy = (await stage.render('external', { injector: { mode: 'policy' } })).manifests;
}, helmBuildMs);
afterAll(() => stage?.close());

const ofKind = (manifests: readonly Manifest[], kind: string) =>
  manifests.filter((one) => one.kind === kind);

/** Returns all objects with a selector: the webhooks, and what the policies and bindings match. */
function selections(): Manifest[] {
  const webhooks = [...byWebhook, ...byPolicy].flatMap((one) => one.webhooks ?? []);
  const policies = [...byWebhook, ...byPolicy]
    .filter(({ kind }) => kind.includes('AdmissionPolicy'))
    .map(({ spec }) => spec.matchConstraints ?? spec.matchResources);
  return [...webhooks, ...policies];
}

describe('the injection', () => {
  it('never selects namespaces of Kubernetes or of the release', () => {
    expect(selections().length).toBeGreaterThan(12);
    for (const { namespaceSelector } of selections()) {
      expect(namespaceSelector.matchExpressions).toContainEqual({
        key: 'kubernetes.io/metadata.name',
        operator: 'NotIn',
        values: ['kube-system', 'kube-public', 'kube-node-lease', 'gateway'],
      });
    }
  });

  it('causes pods to be refused while it is unavailable', () => {
    const webhooks = byWebhook.flatMap((one) => one.webhooks ?? []);
    for (const one of webhooks) {
      expect(one).toMatchObject({ failurePolicy: 'Fail', sideEffects: 'None', timeoutSeconds: 5 });
    }
    const policies = byPolicy.filter(({ kind }) => /AdmissionPolicy$/.test(kind));
    for (const { spec } of policies) expect(spec.failurePolicy).toBe('Fail');
    const [mutating] = ofKind(byWebhook, 'MutatingWebhookConfiguration');
    const [policy] = ofKind(byPolicy, 'MutatingAdmissionPolicy');
    expect(mutating?.webhooks[0].reinvocationPolicy).toBe('IfNeeded');
    expect(policy?.spec.reinvocationPolicy).toBe('IfNeeded');
  });

  it('selects labelled namespaces, and labelled pods of other namespaces, in both modes', () => {
    const [mutating] = ofKind(byWebhook, 'MutatingWebhookConfiguration');
    const [guard] = ofKind(byWebhook, 'ValidatingWebhookConfiguration');
    const bindings = ofKind(byPolicy, 'MutatingAdmissionPolicyBinding');
    const label = (one: Manifest) => one.namespaceSelector.matchExpressions[1];
    const inNamespaces = {
      key: 'sallyport.io/inject',
      operator: 'In',
      values: ['enabled', 'required'],
    };
    const elsewhere = { ...inNamespaces, operator: 'NotIn' };
    const ofPods = { matchLabels: { 'sallyport.io/inject': 'true' } };
    const all = [mutating?.webhooks, bindings.map(({ spec }) => spec.matchResources)];
    for (const [namespaces, pods] of all) {
      expect(label(namespaces)).toEqual(inNamespaces);
      expect(namespaces.objectSelector).toBeUndefined();
      expect(label(pods)).toEqual(elsewhere);
      expect(pods.objectSelector).toEqual(ofPods);
    }
    const guarded = guard?.webhooks.map((one: Manifest) => [
      one.clientConfig.service.path,
      label(one),
      one.objectSelector,
    ]);
    expect(guarded).toEqual([
      ['/guard/enabled', { ...inNamespaces, values: ['enabled'] }, undefined],
      ['/guard/required', { ...inNamespaces, values: ['required'] }, undefined],
      ['/guard/enabled', elsewhere, ofPods],
    ]);
  });

  it('installs the same validating policies in webhook mode and in policy mode', () => {
    const specs = (manifests: readonly Manifest[]) =>
      ofKind(manifests, 'ValidatingAdmissionPolicy').map(({ spec }) => spec);
    expect(specs(byWebhook)).toEqual(specs(byPolicy));
    for (const { spec } of ofKind(byWebhook, 'ValidatingAdmissionPolicyBinding')) {
      expect(spec.validationActions).toEqual(['Deny']);
    }
  });

  it('gives the injector no permissions except for its certificate and its webhook configurations', () => {
    const rules = (kind: string) =>
      ofKind(byWebhook, kind)
        .filter(({ metadata }) => metadata.name.includes('injector'))
        .flatMap((one) => one.rules);
    expect(rules('Role')).toEqual([
      {
        apiGroups: [''],
        resources: ['secrets'],
        resourceNames: ['sallyport-injector-tls'],
        verbs: ['get', 'update'],
      },
      { apiGroups: [''], resources: ['secrets'], verbs: ['create'] },
    ]);
    expect(rules('ClusterRole')).toEqual([
      {
        apiGroups: ['admissionregistration.k8s.io'],
        resources: ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'],
        resourceNames: ['sallyport-injector-gateway'],
        verbs: ['get', 'patch'],
      },
    ]);
  });

  it('renders no certificate, because each rendering would create a different one', () => {
    expect(JSON.stringify(byWebhook)).not.toMatch(/caBundle|BEGIN CERTIFICATE/);
  });

  it('needs no server in policy mode', () => {
    const names = byPolicy.filter(({ metadata }) => metadata.name.includes('injector'));
    const kinds = new Set(names.map(({ kind }) => kind));
    expect([...kinds].toSorted()).toEqual([
      'MutatingAdmissionPolicy',
      'MutatingAdmissionPolicyBinding',
      'ValidatingAdmissionPolicy',
      'ValidatingAdmissionPolicyBinding',
    ]);
  });
});
