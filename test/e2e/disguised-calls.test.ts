import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  bodyCarriers,
  framingCarriers,
  headerCarriers,
} from '../support/disguises/carriers.ts';
import { type LiveStage, startLiveStage } from '../support/disguises/live-stage.ts';
import type { Transport } from '../support/disguises/wire.ts';

let stage: LiveStage;

beforeAll(async () => {
  stage = await startLiveStage();
  stage.recorder.take();
}, 90_000);
afterAll(() => stage?.close());
const transports: readonly Transport[] = ['plain', 'tls'];

describe.each(transports)('over %s', (transport) => {
  it.each([...headerCarriers, ...bodyCarriers, ...framingCarriers])('%s', async (name, bytes, becomes) => {
    const conversation = await stage.send(transport, bytes).catch((e: Error) => ({ answers: [], rest: e.message }));
    const got = stage.recorder.take();
    console.log(JSON.stringify([transport, name, becomes, conversation.answers.map(({ status, body }) => `${status} ${/"reason_code":"([^"]+)"/.exec(body)?.[1]}`), conversation.rest, got.includes('90417') ? got : got.length]));
    expect(1).toBe(1);
  });
});
