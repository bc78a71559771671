import { expect, it } from 'vitest';
import { readConfig } from '../../../proxy/settings/config.ts';

const read = (env: Readonly<Record<string, string>>) => readConfig({ env, readFile: () => '' });
const workload = { SALLYPORT_WORKLOAD_TOKEN_FILE: '/var/run/sallyport/token' };

it('the sidecar reads two settings: the file of the workload token, and the tenant in which it enrols', () => {
  const config = read({ ...workload, SALLYPORT_TENANT: 'acme' });
  expect(config).toMatchObject({
    workloadTokenFile: '/var/run/sallyport/token',
    tenantId: 'acme',
  });
  expect(read({}).workloadTokenFile).toBeUndefined();
});

it('the sidecar refuses an enrolment token together with a workload token', () => {
  expect(() => read({ ...workload, SALLYPORT_ENROLMENT_TOKEN: 'set_x' })).toThrow(
    'Set SALLYPORT_ENROLMENT_TOKEN or SALLYPORT_WORKLOAD_TOKEN_FILE, not both.',
  );
});
