import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { enrol } from '../../../proxy/control-plane/enrolment.ts';
import { SettingsError } from '../../../shared/base/settings.ts';

it.each([
  ['truncated', '{"identity":{"sidecarId":"sc_1"'],
  ['from another program', '{"identity":{}}'],
  ['without keys', '{"identity":{"sidecarId":"a","tenantId":"b","agentId":"1","userId":"u"}}'],
])(
  'a sidecar whose enrolment file is %s does not start, and states what to do',
  async (_what, text) => {
    const dataDir = fs.mkdtempSync(join(tmpdir(), 'enrolment-'));
    fs.writeFileSync(join(dataDir, 'enrolment.json'), text);
    const started = enrol({
      dataDir,
      controlPlaneUrl: 'http://127.0.0.1:1',
      token: undefined,
      version: 'test',
    });
    await expect(started).rejects.toThrow(SettingsError);
    await expect(started).rejects.toThrow(/enrol this sidecar anew/);
    fs.rmSync(dataDir, { recursive: true });
  },
);
