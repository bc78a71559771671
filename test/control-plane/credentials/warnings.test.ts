import { afterAll, beforeAll, expect, it } from 'vitest';
import { credentialForCall } from '../../../control-plane/credentials/held-credentials.ts';
import { putBinding } from '../../../shared/contract/bindings.ts';
import { storeCredential } from '../../../shared/contract/credentials.ts';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
  const bind = (name: string, body: object) =>
    gateway.owner.call(putBinding, { params: { name }, body: body as never });
  const call = { protocol: 'http', method: 'POST', body: 'json', resource: 'order:1' };
  await bind('refunds', {
    ...call,
    host: 'localhost:9000',
    path: '/refunds',
    tool: 'payments.refund',
  });
  await bind('crm', { protocol: 'mcp', host: 'localhost:9100', path: '/mcp' });
  await bind('far', { ...call, host: 'api.example', path: '/far', tool: 'far.call' });
  await bind('mirror', { protocol: 'passthrough', host: 'mirror.example' });
});
afterAll(() => gateway.close());

interface Wanted {
  readonly name?: string;
  readonly tools?: string[];
  readonly hosts?: string[];
}

async function store({
  name = 'payments',
  tools = ['payments.*'],
  hosts = ['localhost:9000'],
}: Wanted) {
  const body = { name, secret: 's', inject: { in: 'bearer' }, bind: { tools, hosts } } as const;
  return (await gateway.owner.call(storeCredential, { body })).warnings;
}

it('a credential for a bound tool and host is stored without a warning, and so is its next version', async () => {
  expect([await store({}), await store({})]).toEqual([undefined, undefined]);
});

it.each([
  ['payment.*', 'payments.*'],
  ['payments.refnd', 'payments.refund'],
])(
  'storing a credential warns that the tool %s matches no known tool, and suggests %s',
  async (tool, nearest) => {
    expect(await store({ tools: [tool] })).toEqual([
      `bind.tools: "${tool}" matches no tool that is registered, bound or was called before; did you mean "${nearest}"?`,
    ]);
  },
);

it.each([
  ['localhost', 'localhost:9000'],
  ['127.0.0.1:9099', 'localhost:9100'],
  ['apy.example', 'api.example'],
  ['api.example:8443', 'api.example'],
])(
  'storing a credential warns that no binding has the host %s, and suggests %s',
  async (host, nearest) => {
    expect(await store({ hosts: [host] })).toEqual([
      `bind.hosts: no binding has the host "${host}"; did you mean "${nearest}"?`,
    ]);
  },
);

it('a credential for an unknown host gets no suggestion if no known host is similar', async () => {
  expect(await store({ hosts: ['nowhere.test'] })).toEqual([
    'bind.hosts: no binding has the host "nowhere.test"; bind its calls, or check how it is written, with the port',
  ]);
});

it('storing a credential warns if its host is a passthrough host, because credentials are not added there', async () => {
  expect(await store({ hosts: ['mirror.example'] })).toEqual([
    expect.stringContaining('"mirror.example" is passed through'),
  ]);
});

it('storing a credential warns if another credential has the same tool and host, and names the one that is used', async () => {
  await store({});
  const call = { tool: 'payments.refund', host: 'localhost:9000' };
  const used = async () => {
    const held = await credentialForCall(gateway.services, 'default', call);
    return (await gateway.services.db.credential.findFirst({ where: { id: held?.id ?? '' } }))
      ?.name;
  };
  const second = await store({ name: 'refunds', tools: ['payments.refund'] });
  expect([second, await used()]).toEqual([
    [
      'bind: the credential "payments" covers "payments.refund" on "localhost:9000" too; such calls use "payments", the first by name',
    ],
    'payments',
  ]);
  const third = await store({ name: 'a-last-one', tools: ['payments.refund'] });
  expect([third?.[0], await used()]).toEqual([
    'bind: the credential "payments" covers "payments.refund" on "localhost:9000" too; such calls use "a-last-one", the first by name',
    'a-last-one',
  ]);
  expect(third).toHaveLength(2);
  expect(
    await store({ name: 'elsewhere', tools: ['payments.refund'], hosts: ['api.example'] }),
  ).toBe(undefined);
  expect(await store({ name: 'other-tools', tools: ['mcp.crm.*'] })).toBe(undefined);
});

it('storing a credential returns a bounded list of warnings', async () => {
  const hosts = Array.from({ length: 100 }, (_, at) => `h${at}.nowhere.test`);
  const warnings = await store({ hosts });
  expect(warnings).toHaveLength(21);
  expect(warnings?.at(-1)).toBe('80 more warnings.');
});
