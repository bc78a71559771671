import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { helmBuildMs } from '../support/charts/helm.ts';
import { type ChartStage, openChartStage } from './stage.ts';

let stage: ChartStage;
beforeAll(async () => {
  stage = await openChartStage();
}, helmBuildMs);
afterAll(() => stage?.close());

describe('an unknown value is refused with the nearest name:', () => {
  it.each([
    ['controlPlane.replcas', { controlPlane: { replcas: 3 } }, 'controlPlane.replicas'],
    ['ControlPlane', { ControlPlane: {} }, 'controlPlane'],
    ['x', { x: 1 }, 'image'],
    ['masterKey.kms.keys', { masterKey: { kms: { keys: 'aws' } } }, 'masterKey.kms.key'],
    [
      'image.pullSecrets[0].nam',
      { image: { pullSecrets: [{ name: 'a', nam: 'b' }] } },
      'image.pullSecrets[0].name',
    ],
    ['injector.failurePolicy', { injector: { failurePolicy: 'Ignore' } }, 'injector.replicas'],
    ['sidecar.uuid', { sidecar: { uuid: 5 } }, 'sidecar.uid'],
    [
      'controlPlane.settings.SALLYPORT_LOGLEVEL',
      { controlPlane: { settings: { SALLYPORT_LOGLEVEL: 'debug' } } },
      'controlPlane.settings.SALLYPORT_LOG_LEVEL',
    ],
  ])('%s', async (path, values, nearest) => {
    expect(await stage.refusal('external', values)).toContain(
      `chart.unknown_value: ${path} is not a value of this chart. Did you mean ${nearest}?`,
    );
  });

  it('a name of 1,000 characters', async () => {
    const message = await stage.refusal('external', { ['x'.repeat(1_000)]: 1 });
    expect(message).toContain('chart.unknown_value');
  });
});

describe('a value of the wrong type or form is refused by the schema:', () => {
  it.each([
    ['controlPlane/replicas', { controlPlane: { replicas: 'two' } }],
    ['controlPlane/replicas', { controlPlane: { replicas: 0 } }],
    ['image/digest', { image: { digest: 'sha256:abc' } }],
    ['image/pullPolicy', { image: { pullPolicy: 'always' } }],
    ['database/existingSecret', { database: { existingSecret: 'Not A Name' } }],
    ['masterKey/kms/key', { masterKey: { kms: { key: 'arn:aws:kms' } } }],
    ['injector/mode', { injector: { mode: 'cni' } }],
    ['sidecar/transparentPort', { sidecar: { transparentPort: 70_000 } }],
    ['sidecar/redis/url', { sidecar: { redis: { url: 'redis://:secret@redis:6379' } } }],
    ['controlPlane', { controlPlane: { replicas: null } }],
  ])('%s', async (path, values) => {
    const message = await stage.refusal('external', values);
    expect(message).toContain("don't meet the specifications of the schema");
    expect(message).toContain(path);
  });
});

describe('missing and contradictory values are refused with a reason code:', () => {
  it.each([
    [
      'chart.sidecar_setting_determined',
      'external',
      { sidecar: { settings: { SALLYPORT_DATA_DIR: '/' } } },
    ],
    [
      'chart.sidecar_resource_unknown',
      'external',
      { sidecar: { resources: { limits: { 'ephemeral-storage': '1Gi' } } } },
    ],
    ['chart.image_missing', 'external', { image: { repository: '' } }],
    ['chart.database_missing', 'external', { database: { existingSecret: '' } }],
    ['chart.redis_missing', 'external', { redis: { existingSecret: '' } }],
    ['chart.master_key_missing', 'external', { masterKey: { existingSecret: '' } }],
    ['chart.previous_key_without_secret', 'production', { masterKey: { previousKey: 'old' } }],
    ['chart.previous_key_is_current', 'external', { masterKey: { previousKey: 'master-key' } }],
    ['chart.kms_access_missing', 'production', { masterKey: { kms: { existingSecret: '' } } }],
    ['chart.evaluation_external_stores', 'evaluation', { redis: { existingSecret: 'redis' } }],
    ['chart.evaluation_secret_missing', 'evaluation', { evaluation: { existingSecret: '' } }],
    ['chart.evaluation_replicas', 'evaluation', { controlPlane: { replicas: 2 } }],
    [
      'chart.evaluation_replicas',
      'evaluation',
      { controlPlane: { autoscaling: { enabled: true } } },
    ],
    [
      'chart.autoscaling_range',
      'production',
      { controlPlane: { autoscaling: { maxReplicas: 2 } } },
    ],
    [
      'chart.setting_in_extra_env',
      'external',
      { controlPlane: { extraEnv: [{ name: 'SALLYPORT_TENANT' }] } },
    ],
    ['chart.ingress_hosts_missing', 'production', { ingress: { hosts: [] } }],
    ['chart.ingress_tls_missing', 'production', { ingress: { tls: [] } }],
    ['chart.route_parents_missing', 'production', { httpRoute: { parentRefs: [] } }],
    ['chart.sidecar_uid_missing', 'external', { sidecar: { uid: 0 } }],
    ['chart.sidecar_uid_taken', 'external', { sidecar: { uid: 65_532 } }],
    ['chart.sidecar_ports_equal', 'external', { sidecar: { dnsPort: 15_001 } }],
    ['chart.sidecar_ports_equal', 'external', { sidecar: { transparentPort: 8181 } }],
    ['chart.sidecar_redis_missing', 'external', { sidecar: { redis: { existingSecret: '' } } }],
    ['chart.sidecar_redis_twice', 'external', { sidecar: { redis: { url: 'redis://redis' } } }],
    [
      'chart.workload_issuer_missing',
      'external',
      { workloadIdentity: { cluster: { issuer: '' } } },
    ],
    [
      'chart.token_review_without_issuer',
      'external',
      {
        injector: { enabled: false },
        workloadIdentity: { cluster: { issuer: '', tokenReview: true } },
      },
    ],
  ])('%s (%s)', async (code, base, values) => {
    expect(await stage.refusal(base, values)).toContain(`${code}: `);
  });

  it('chart.policy_mode_unsupported before Kubernetes 1.36', async () => {
    const values = { injector: { mode: 'policy' } };
    const message = await stage.refusal('external', values, '1.35.4');
    expect(message).toContain('chart.policy_mode_unsupported: ');
    await stage.render('external', values, '1.36.0');
  });

  it('a version of Kubernetes before 1.31', async () => {
    expect(await stage.refusal('external', {}, '1.30.9')).toContain('kubeVersion: >=1.31.0');
  });

  it('the default values; the error names the first missing value', async () => {
    expect(await stage.refusal('none', {})).toContain('chart.image_missing: ');
  });
});
