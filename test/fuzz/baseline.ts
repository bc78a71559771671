/** A refusal that JSON Schema cannot predict, or a response that it cannot describe. */
interface Accepted {
  /** `METHOD PATH`; absent: any operation. */
  readonly operation?: string;
  readonly check: Check;
  /** Reason code in the response; absent: any reason code. */
  readonly reasonCode?: string;
  /** Text that the response must contain. */
  readonly text?: RegExp;
  readonly because: string;
}

export type Check =
  | 'not_a_server_error'
  | 'status_code_conformance'
  | 'content_type_conformance'
  | 'response_schema_conformance'
  | 'negative_data_rejection'
  | 'positive_data_acceptance';

export interface Finding {
  readonly check: Check;
  readonly operation: string;
  readonly status: number;
  readonly answer: string;
  readonly problem: string;
  readonly query: string;
  readonly path: string;
  readonly body: string;
}

const refused = 'positive_data_acceptance';

/** Known and accepted findings, each with its reason; any other finding fails the run. */
export const baseline: readonly Accepted[] = [
  {
    operation: 'POST /v1/sidecars/evidence',
    check: refused,
    reasonCode: 'evidence.event_invalid',
    because: 'The segment must be signed by the sidecar that uploads it.',
  },
  {
    check: refused,
    reasonCode: 'args.number_unsafe',
    because: 'In free JSON a number must keep its value when it is printed again.',
  },
  {
    check: refused,
    reasonCode: 'args.ambiguous',
    because: 'Two names that some parser reads as one are a property of all names together.',
  },
  {
    check: refused,
    reasonCode: 'args.encoding_invalid',
    because: 'U+0000, half surrogates and invisible names are refused at any depth of free JSON.',
  },
  {
    check: refused,
    reasonCode: 'args.too_deep',
    because: 'JSON Schema cannot bound the depth of free JSON.',
  },
  {
    check: refused,
    text: /must not be (after|larger than) to/,
    because: 'JSON Schema cannot compare two parameters.',
  },
  {
    operation: 'GET /v1/evidence/export',
    check: refused,
    text: /is allowed only with format=siem/,
    because: 'OpenAPI cannot make one parameter depend on another.',
  },
  {
    check: refused,
    reasonCode: 'evidence.cursor_invalid',
    because: 'A cursor carries a keyed hash that only the server can make.',
  },
  {
    operation: 'POST /v1/evidence/verify',
    check: refused,
    reasonCode: 'evidence.checkpoint_invalid',
    because: 'A checkpoint must be signed by a key of the tenant.',
  },
  {
    check: refused,
    text: /expires_at: (has passed|must lie in the future|lies in the past)/,
    because: 'Whether a time has passed depends on when it is asked.',
  },
  {
    operation: 'PUT /v1/runtime/bindings/{name}',
    check: refused,
    reasonCode: 'binding.invalid',
    because: 'What a binding needs follows from its protocol, template and host together.',
  },
  {
    operation: 'POST /v1/credentials',
    check: refused,
    reasonCode: 'credential.invalid',
    because:
      'Whether a secret can stand where it is injected depends on place and format together.',
  },
  {
    operation: 'PUT /v1/integrations/webhook',
    check: refused,
    text: /"error":"url: /,
    because: 'Which hosts and schemes may be reached depends on the address and on the operator.',
  },
  {
    check: refused,
    reasonCode: 'policy.invalid',
    text: /regular expression|not valid JSON|is not an object|is also the name of|globs|patterns of this policy|in a list/,
    because: 'Patterns must compile, rule names must differ, and a text must hold a definition.',
  },
  {
    check: refused,
    reasonCode: 'args.idempotency_conflict',
    because: 'Whether an idempotency key was used before depends on earlier requests.',
  },
  {
    operation: 'POST /v1/approvals/{id}/decide',
    check: refused,
    text: /"error":"modified_args: /,
    because: 'Whether arguments may be modified, and which, depends on action, tool and approval.',
  },
  {
    operation: 'POST /v1/keys',
    check: refused,
    text: /"error":"(name|principal): (must be written in Unicode|names such as)/,
    because: 'JSON Schema knows neither Unicode normal forms nor look-alike characters.',
  },
  {
    operation: 'PUT /v1/runtime/bindings/{name}',
    check: refused,
    text: /does not apply to protocol/,
    because: 'Which members a binding may have follows from its protocol.',
  },
  {
    check: refused,
    reasonCode: 'args.name_too_long',
    because: 'Names are bounded in bytes; JSON Schema counts characters.',
  },
  {
    check: refused,
    text: /path: must be a tile path/,
    because: 'Which paths a tile can have follows from its number.',
  },
  {
    check: 'negative_data_rejection',
    reasonCode: 'request.body_too_large',
    because: 'A body that violates the schema can be refused for its size first.',
  },
  {
    operation: 'PUT /v1/users/{id}',
    check: 'negative_data_rejection',
    text: /"email":/,
    because: 'Implementations of the format email differ on rare addresses.',
  },
  {
    operation: 'GET /v1/evidence/events/{id}/fixture',
    check: 'response_schema_conformance',
    because:
      'Schemathesis parses the YAML text and compares its value with the schema of the text.',
  },
];

export function isAccepted(finding: Finding): boolean {
  const code = /"reason_code":"([\w.]+)"/.exec(finding.answer)?.[1];
  return baseline.some(
    ({ operation = finding.operation, check, reasonCode = code, text = /(?:)/ }) =>
      operation === finding.operation &&
      check === finding.check &&
      reasonCode === code &&
      text.test(finding.answer),
  );
}
