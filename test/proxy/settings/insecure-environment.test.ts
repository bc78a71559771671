import { afterEach, beforeEach, expect, it } from 'vitest';
import { startProgram } from '../../support/programs/processes.ts';
import {
  Cleanup,
  httpsUpstream,
  temporaryFolder,
  testAuthority,
} from '../../support/sidecar/proxy.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

it('a sidecar verifies the control plane’s certificate even if NODE_TLS_REJECT_UNAUTHORIZED is 0', async () => {
  let requests = 0;
  const port = await httpsUpstream(cleanup, testAuthority(cleanup), (_req, res) => {
    requests++;
    res.end('{}');
  });
  const sidecar = startProgram('proxy/main.ts', {
    SALLYPORT_PROXY_PORT: '0',
    SALLYPORT_PROXY_ADMIN_PORT: '0',
    SALLYPORT_DATA_DIR: temporaryFolder(cleanup),
    SALLYPORT_CONTROL_PLANE_URL: `https://127.0.0.1:${port}`,
    SALLYPORT_ENROLMENT_TOKEN: 'set_of_nobody',
    REDIS_URL: 'redis://127.0.0.1:1',
    NODE_TLS_REJECT_UNAUTHORIZED: '0',
  });
  expect(await sidecar.exited()).toBe(1);
  expect(requests).toBe(0);
  expect(sidecar.output()).toContain('NODE_TLS_REJECT_UNAUTHORIZED=0 is ignored');
});
