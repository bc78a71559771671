import type {
  Agent,
  ApiKey,
  Approval,
  ApprovalVote,
  BindingRemoval,
  DirectoryUser,
  EnrolmentRule,
  EnrolmentToken,
  KillSwitch,
  Passport,
  Policy,
  ServiceAccount,
  Sidecar,
  SigningKey,
  Tenant,
  Tool,
} from './generated/client.ts';

/** Rows that give authority, by table. Bindings and credentials have proofs of their own. */
interface SignedTables {
  readonly agent: Agent;
  readonly api_key: ApiKey;
  readonly approval: Approval;
  /**
   * The action and the grant of a vote are stored only in the ledger; the row's signature also
   * covers them.
   */
  readonly approval_vote: ApprovalVote & {
    readonly effectiveDigest: string | undefined;
    readonly grantAsked: unknown;
  };
  readonly binding_removal: BindingRemoval;
  readonly directory_user: DirectoryUser;
  readonly enrolment_rule: EnrolmentRule;
  readonly enrolment_token: EnrolmentToken;
  readonly kill_switch: KillSwitch;
  readonly passport: Passport;
  readonly policy: Policy;
  readonly service_account: ServiceAccount;
  readonly sidecar: Sidecar;
  readonly signing_key: SigningKey;
  readonly tenant: Tenant;
  readonly tool: Tool;
}

export type SignedTable = keyof SignedTables;

/**
 * Key columns and signed columns of each table. Every column that code acts on is signed. `added`
 * lists columns that were added after rows had been signed. They are signed by name, and only if
 * they are set. Therefore, older signatures stay valid, and nobody can empty a column that was set.
 */
export const signedColumns = {
  agent: {
    key: ['tenantId', 'id'],
    signed: ['name', 'kind', 'goal', 'blastRadius', 'capabilities', 'disabledAt'],
    added: ['disabledByRole'],
  },
  api_key: {
    key: ['tenantId', 'id'],
    signed: ['hash', 'role', 'scope', 'principal', 'agentId', 'expiresAt', 'revokedAt'],
    added: ['mintedBy'],
  },
  approval: {
    key: ['tenantId', 'id'],
    signed: [
      'kind',
      'status',
      'agentId',
      'userId',
      'tool',
      'resource',
      'riskTier',
      'policyHash',
      'manifestHash',
      'actionDigest',
      'effectiveDigest',
      'minRole',
      'quorum',
      'sidecarId',
      'expiresAt',
      'reauthRequiredAt',
      'escalatedBy',
      'decidedBy',
      'decidedAt',
      'eventId',
      'grantExpiresAt',
      'grantLimits',
      'grantScope',
      'grantUses',
      'usesSpent',
      'grantRevokedAt',
      'usedAt',
      'goal',
      'summary',
      'reasonCode',
    ],
    added: ['requestedBy', 'deciderRole', 'deciderCount', 'agentComment'],
  },
  approval_vote: {
    key: ['tenantId', 'id'],
    signed: [
      'approvalId',
      'principal',
      'role',
      'action',
      'source',
      'eventId',
      'votedAt',
      'effectiveDigest',
      'grantAsked',
    ],
    added: ['mintedBy'],
  },
  binding_removal: { key: ['tenantId', 'name'], signed: ['eventId', 'removedAt'] },
  directory_user: { key: ['tenantId', 'id'], signed: ['email', 'role'] },
  enrolment_rule: {
    key: ['tenantId', 'name'],
    signed: [
      'issuer',
      'audience',
      'namespace',
      'serviceAccount',
      'agentId',
      'userId',
      'environment',
      'writtenBy',
      'writerRole',
      'eventId',
    ],
  },
  enrolment_token: {
    key: ['tenantId', 'hash'],
    signed: ['agentId', 'userId', 'environment', 'usesLeft', 'createdBy', 'expiresAt'],
  },
  kill_switch: {
    key: ['tenantId', 'id'],
    signed: ['kind', 'tool', 'agentId', 'mode', 'reason', 'expiresAt', 'disarmedAt'],
  },
  passport: {
    key: ['tenantId', 'jti'],
    signed: [
      'kind',
      'agentId',
      'userId',
      'audience',
      'riskTier',
      'approvalHash',
      'sidecarId',
      'issuedAt',
      'expiresAt',
      'renewedFrom',
      'rootJti',
      'rootIssuedAt',
    ],
    added: ['attestedBy'],
  },
  policy: {
    key: ['tenantId', 'id'],
    // Signing the hash is enough: it binds the definition, and code that uses the definition
    // recomputes the hash.
    signed: ['definitionId', 'version', 'lifecycle', 'policyHash'],
  },
  service_account: { key: ['tenantId', 'id'], signed: ['agentId', 'name', 'revokedAt'] },
  sidecar: {
    key: ['tenantId', 'id'],
    signed: ['agentId', 'userId', 'environment', 'signingJwk', 'encryptionJwk', 'revokedAt'],
    added: ['revokedFor', 'ruleName', 'issuer', 'namespace', 'serviceAccount', 'podName', 'podUid'],
  },
  signing_key: {
    key: ['tenantId', 'kid'],
    signed: ['purpose', 'alg', 'publicJwk', 'state', 'retiredAt'],
  },
  tenant: { key: ['id'], signed: ['name', 'mode', 'plan', 'approvalSlaSeconds'] },
  tool: {
    key: ['tenantId', 'name'],
    signed: ['manifestHash', 'approvedHash', 'approvalStatus', 'riskTier', 'driftReason'],
  },
} as const satisfies {
  readonly [Table in SignedTable]: {
    readonly key: readonly (keyof SignedTables[Table])[];
    readonly signed: readonly (keyof SignedTables[Table])[];
    readonly added?: readonly (keyof SignedTables[Table])[];
  };
};

type AddedColumnOf<Table extends SignedTable> = (typeof signedColumns)[Table] extends {
  readonly added: readonly (infer Column)[];
}
  ? Column
  : never;

type ColumnOf<Table extends SignedTable> =
  | (typeof signedColumns)[Table]['key'][number]
  | (typeof signedColumns)[Table]['signed'][number]
  | AddedColumnOf<Table>;

/** Returns the signed columns that were added to a table later. */
export function addedColumns(table: SignedTable): readonly string[] {
  const columns: { readonly signed: readonly string[]; readonly added?: readonly string[] } =
    signedColumns[table];
  return columns.added ?? [];
}

/**
 * A timestamp as the driver returns it, or as a number of milliseconds if SQL converted the row to
 * JSON.
 */
type Given<Value> = Date extends Value ? Value | number : Value;

/** Columns needed to verify that the control plane wrote a row. */
export type SignedRow<Table extends SignedTable> = {
  readonly [Column in ColumnOf<Table> & keyof SignedTables[Table]]: Given<
    SignedTables[Table][Column]
  >;
} & { readonly mac: string | null };

export const signedTables = Object.keys(signedColumns) as readonly SignedTable[];
