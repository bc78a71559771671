import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { webhookHeaders, webhookSecret } from '../../../shared/crypto/standard-webhooks.ts';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const message = {
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  atMs: 1_614_265_330_999,
  body: '{"test": 2432232314}',
};

describe('a signed webhook', () => {
  it('has the signature given in the Standard Webhooks example', () => {
    expect(webhookHeaders(message, [secret])).toEqual({
      'webhook-id': message.id,
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    });
  });

  it('has a signature for each of the two secrets during a rotation', () => {
    const other = webhookSecret(Buffer.alloc(32, 7));
    const { 'webhook-signature': both } = webhookHeaders(message, [other, secret]);
    const [first, second] = both.split(' ');
    expect(first).toBe(webhookHeaders(message, [other])['webhook-signature']);
    expect(second).toBe(webhookHeaders(message, [secret])['webhook-signature']);
  });

  it('is accepted by a receiver with either of the two secrets, and by no other receiver', () => {
    const secrets = [1, 2].map((byte) => webhookSecret(Buffer.alloc(32, byte)));
    const headers = { ...webhookHeaders({ ...message, atMs: Date.now() }, secrets) };
    for (const known of secrets) {
      expect(new Webhook(known).verify(message.body, headers)).toEqual(JSON.parse(message.body));
    }
    const unknown = new Webhook(webhookSecret(Buffer.alloc(32, 3)));
    expect(() => unknown.verify(message.body, headers)).toThrow('No matching signature');
    expect(() => new Webhook(secret).verify('{}', headers)).toThrow('No matching signature');
  });

  it.each(['', 'whsec_', 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', webhookSecret(Buffer.alloc(23))])(
    'cannot be created with the invalid secret %j',
    (weak) => {
      expect(() => webhookHeaders(message, [weak])).toThrow(/24 to 64 bytes/);
    },
  );
});
