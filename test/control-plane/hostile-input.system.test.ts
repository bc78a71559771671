import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Services } from '../../control-plane/core/services.ts';
import { namesOf } from '../../control-plane/platform/http/validate.ts';
import { allRoutes } from '../../control-plane/routes.ts';
import type { AnyOperation } from '../../shared/contract/base/operation.ts';
import {
  type HostileApi,
  type HostileRequest,
  type Judged,
  startHostileApi,
} from '../support/hostile/api.ts';
import { placesOf, withValue } from '../support/hostile/places.ts';
import {
  awkward,
  awkwardTexts,
  brokenBodies,
  encodedTexts,
  jsonText,
  RawJson,
  unkeepable,
} from '../support/hostile/values.ts';

let api: HostileApi;
beforeAll(async () => {
  api = await startHostileApi();
});
afterAll(async () => {
  const { requests, slowest } = api.tally();
  console.log(
    `${requests} hostile requests, the slowest in ${slowest.ms} ms (${slowest.operation})`,
  );
  await api.close();
});

/** Generous, because the machine may be busy; an input that is slow by design takes minutes. */
const answeredWithinMs = 30_000;

// The routes only keep references to their services, which are not called.
const operations = allRoutes({} as Services).map(({ operation }) => operation);
const withBody = operations.filter(
  ({ body, bodyType }) => body !== undefined && bodyType !== 'ndjson',
);
const withLines = operations.filter(({ bodyType }) => bodyType === 'ndjson');
const withParameters = operations.filter(({ params, query }) => params ?? query);

/** Expects that every refusal has a reason and that no request fails or is slow; returns the refusals. */
function refusalsAmong(answers: readonly Judged[]): readonly Judged[] {
  const wrong = answers.filter(
    ({ status, reason, ms }) =>
      status >= 500 || (status >= 400 && reason === undefined) || ms > answeredWithinMs,
  );
  expect(wrong).toEqual([]);
  return answers.filter(({ status }) => status >= 400);
}

/**
 * Sends the requests and checks two rules: a request that is refused for its input stores nothing, and a
 * request that is refused by a decision is stored as evidence.
 */
async function expectTakenOrRefused(
  operation: AnyOperation,
  requests: readonly HostileRequest[],
): Promise<void> {
  const before = await api.stored();
  const answers = await Promise.all(requests.map((request) => api.send(operation, request)));
  const refused = refusalsAmong(answers).filter(({ isDecision }) => !isDecision);
  if (refused.length === answers.length) {
    expect(await api.stored()).toEqual(before);
    return;
  }
  // Some of the requests were accepted and stored, so the refused requests are repeated alone.
  const between = await api.stored();
  const again = await Promise.all(refused.map(({ send }) => send()));
  if (again.every(({ status, isDecision }) => status >= 400 && !isDecision)) {
    expect(await api.stored()).toEqual(between);
  }
}

describe.each(withBody.map((operation) => [operation.id, operation] as const))(
  'the body of %s',
  (_id, operation) => {
    it('is refused if it cannot be parsed or stored, and nothing of it is stored', async () => {
      const before = await api.stored();
      const example = operation.bodyExample ?? {};
      const [place = ['extra']] = placesOf(operation).filter((at) => typeof at[0] === 'string');
      const bodies = [
        ...brokenBodies.map(([, body]) => body),
        ...unkeepable.flatMap(([, value]) => [
          jsonText(value),
          jsonText({ ...(example as object), extra: value }),
          jsonText(withValue(example, place, value)),
        ]),
        jsonText({ ...(example as object), extra: new RawJson('{"__proto__":1}') }),
      ];
      const answers = await Promise.all(bodies.map((body) => api.send(operation, { body })));
      expect(refusalsAmong(answers)).toHaveLength(bodies.length);
      expect(await api.stored()).toEqual(before);
    });

    it('is quickly accepted or refused as a whole, if any field has an unusual value', async () => {
      const example = operation.bodyExample ?? {};
      for (const place of placesOf(operation)) {
        const bodies = awkward.map((value) => jsonText(withValue(example, place, value)));
        await expectTakenOrRefused(
          operation,
          bodies.map((body) => ({ body })),
        );
      }
    });
  },
);

/** Returns one request for each parameter of an operation, each with the text as the parameter's value. */
function parametersOf({ params, query }: AnyOperation): ((text: string) => HostileRequest)[] {
  return [
    ...(params === undefined ? [] : namesOf(params)).map((name: string) => (text: string) => ({
      params: { [name]: text },
    })),
    ...(query === undefined ? [] : namesOf(query)).map((name: string) => (text: string) => ({
      query: { [name]: text },
    })),
    // A parameter that no operation declares, with a name that a parser might confuse with `__proto__`.
    (text) => ({ query: { __proto__x: text } }),
  ];
}

describe.each(withLines.map((operation) => [operation.id, operation] as const))(
  'the NDJSON lines of %s',
  (_id, operation) => {
    // A refused upload may add an incident to the ledger, so stored rows are not compared.
    it('are accepted or refused quickly, whatever they contain', async () => {
      const [head = '', ...rest] = operation.bodyExample as readonly string[];
      const lines = [
        ...brokenBodies.map(([, body]) => String(body)),
        ...unkeepable.map(([, value]) => jsonText(value)),
        ...awkward.map(jsonText),
        '\ud800',
        '\0',
      ];
      const bodies = lines.flatMap((line) => [
        `${line}\n${rest.join('\n')}\n`,
        `${head}\n${line}\n`,
        line,
      ]);
      const answers = await Promise.all(
        [...bodies, Buffer.from([0xff, 0x0a, 0xfe, 0x0a])].map((body) =>
          api.send(operation, { body }),
        ),
      );
      expect(refusalsAmong(answers).length).toBeGreaterThan(brokenBodies.length);
    });
  },
);

describe.each(withParameters.map((operation) => [operation.id, operation] as const))(
  'the parameters of %s',
  (_id, operation) => {
    it('are quickly accepted or refused as a whole, whatever they contain', async () => {
      const body =
        operation.bodyExample === undefined ? undefined : jsonText(operation.bodyExample);
      const texts = [...awkwardTexts.map(encodeURIComponent), ...encodedTexts];
      for (const at of parametersOf(operation)) {
        await expectTakenOrRefused(
          operation,
          texts.map((text) => ({ body, ...at(text) })),
        );
      }
    });
  },
);
