import type { Log } from '../../../../shared/base/log.ts';
import { startApi } from '../../../support/control-plane/api.ts';
import { probeRoutes } from '../../../support/control-plane/probe-routes.ts';
import { testServices } from '../../../support/control-plane/services.ts';

interface Line {
  readonly level: keyof Log;
  readonly fields: Record<string, unknown>;
}

const boundless = { tenant: 1e6, control: 1e6, sidecar: 1e6, address: 1e6 };

/** Starts an API with the probe routes; returns its log lines, and `probe`, where tests set failures. */
export async function startProbeApi(requestsPerMinute = boundless, unknownKeysPerMinute = 1e6) {
  const lines: Line[] = [];
  const record = (level: keyof Log) => (fields: object) => {
    lines.push({ level, fields: { ...fields } });
  };
  const log: Log = {
    debug: record('debug'),
    info: record('info'),
    warn: record('warn'),
    error: record('error'),
  };
  const probe: {
    /** The error that the failing route throws. */
    failure: unknown;
    /** The stream that the streaming route sends. */
    streamed: (signal: AbortSignal) => AsyncIterable<string>;
  } = {
    failure: undefined,
    streamed: async function* () {
      yield '';
    },
  };
  const services = await testServices({ log });
  const api = await startApi(
    probeRoutes({ fail: () => probe.failure, stream: (signal) => probe.streamed(signal) }),
    services,
    { limits: { requestsPerMinute, unknownKeysPerMinute } },
  );
  const close = async () => {
    await api.close();
    await services.close();
  };
  return { api, services, lines, log, probe, key: await api.key(), close };
}
