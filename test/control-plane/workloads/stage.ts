import { hash } from 'node:crypto';
import { exportJWK, generateKeyPair } from 'jose';
import type { Client } from '../../../shared/contract/base/client.ts';
import { deleteEnrolmentRule, putEnrolmentRule } from '../../../shared/contract/enrolment-rules.ts';
import { sidecarTokenAudience } from '../../../shared/contract/sidecar-token.ts';
import { enrolmentProofType, enrolWorkload } from '../../../shared/contract/workload-enrolment.ts';
import { signJws } from '../../../shared/crypto/jws.ts';
import { generateSigningKey, type SigningKey } from '../../../shared/crypto/signing-key.ts';
import { manualClock } from '../../support/base/manual-clock.ts';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';
import {
  billingPod,
  type OidcIssuer,
  startOidcIssuer,
} from '../../support/control-plane/oidc-issuer.ts';

/** A control plane that trusts one issuer, and an agent with an enrolment rule. */
export interface WorkloadStage {
  readonly gateway: Gateway;
  readonly issuer: OidcIssuer;
  readonly agentId: string;
  /** Returns the body of an enrolment rule for the billing pod. */
  rule(more?: object): RuleBody;
  put(name: string, more?: object, client?: Client): Promise<RuleAnswer>;
  remove(name: string): Promise<number>;
  /** Enrols with new keys, unless keys are given. */
  enrol(token: string, more?: object, keys?: PodKeys): ReturnType<typeof enrolOnce>;
  close(): Promise<void>;
}

interface RuleBody {
  readonly issuer: string;
  readonly namespace: string;
  readonly service_account: string;
  readonly agent_id: string;
  readonly user_id: string;
}

type RuleAnswer = Awaited<ReturnType<typeof putRule>>;

interface StageOptions {
  /** Returns further members of the issuer's entry in SALLYPORT_OIDC_ISSUERS. */
  readonly setting?: (issuer: OidcIssuer) => object;
  readonly env?: Readonly<Record<string, string>>;
  /** Default: a new Postgres database. */
  readonly databaseUrl?: 'embedded';
}

export async function startWorkloadStage({
  setting = () => ({}),
  env = {},
  databaseUrl,
}: StageOptions = {}): Promise<WorkloadStage> {
  const clock = manualClock(Date.now());
  const issuer = await startOidcIssuer({ now: () => clock.now() });
  const trusted = { issuer: issuer.issuer, ca_file: issuer.caFile, ...setting(issuer) };
  const gateway = await startGateway({
    clock,
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
    env: { ...env, SALLYPORT_OIDC_ISSUERS: JSON.stringify([trusted]) },
  });
  const agentId = await gateway.agent('refunds', ['pay.*']);
  const { namespace, serviceAccount } = billingPod;
  const rule = (more: object = {}): RuleBody => ({
    issuer: issuer.issuer,
    namespace,
    service_account: serviceAccount,
    agent_id: agentId,
    user_id: 'user-1',
    ...more,
  });
  return {
    gateway,
    issuer,
    agentId,
    rule,
    put: (name, more, client = gateway.owner) => putRule(client, name, rule(more)),
    remove: async (name) =>
      (await gateway.owner.call(deleteEnrolmentRule, { params: { name } })).revoked_sidecars,
    enrol: (token, more, keys) => enrolOnce(gateway, token, more, keys),
    close: async () => {
      await gateway.close();
      await issuer.close();
    },
  };
}

function putRule(client: Client, name: string, body: RuleBody) {
  return client.call(putEnrolmentRule, { params: { name }, body });
}

export interface PodKeys {
  readonly signing: SigningKey;
  readonly encryptionX: string;
}

export async function podKeys(): Promise<PodKeys> {
  const { publicKey } = await generateKeyPair('ECDH-ES', { crv: 'X25519' });
  return { signing: generateSigningKey(), encryptionX: (await exportJWK(publicKey)).x ?? '' };
}

/** Signs the hash of a token and the encryption key, which proves possession of the signing key. */
export function proofOf({ signing, encryptionX }: PodKeys, token: string, more: object = {}) {
  const claims = {
    aud: sidecarTokenAudience,
    token_sha256: hash('sha256', token, 'hex'),
    encryption_x: encryptionX,
    ...more,
  };
  return signJws(claims, enrolmentProofType, signing);
}

async function enrolOnce({ owner }: Gateway, token: string, more: object = {}, given?: PodKeys) {
  const keys = given ?? (await podKeys());
  const body = {
    token,
    signing_jwk: { kty: 'OKP', crv: 'Ed25519', x: keys.signing.publicJwk.x } as const,
    encryption_jwk: { kty: 'OKP', crv: 'X25519', x: keys.encryptionX } as const,
    proof: proofOf(keys, token),
    ...more,
  };
  return owner.call(enrolWorkload, { body });
}
