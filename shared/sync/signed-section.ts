import { z } from 'zod';
import { sha256 } from '../crypto/hash.ts';
import { signJws, verifyJws } from '../crypto/jws.ts';
import type { SigningKey, VerificationKeys } from '../crypto/signing-key.ts';
import { envelopeSchema, sidecarSectionSchema, tenantSectionSchemas } from './section-schemas.ts';
import {
  type SectionBodies,
  type SectionEnvelope,
  type SectionName,
  type SidecarSectionBody,
  sectionType,
  type TenantSection,
  tenantSections,
} from './sections.ts';

/** Sections of tenants with tens of thousands of policies and tools stay well below this length. */
const sectionLengthMax = 64 * 1024 * 1024;

/** The body type for a section's name. */
type BodyOf<Name extends SectionName> = Name extends TenantSection
  ? SectionBodies[Name]
  : SidecarSectionBody;

/** The reason why a section or heartbeat was refused. */
type SyncProblem = 'malformed' | 'signature_invalid' | 'wrong_tenant' | 'wrong_section';

export interface Refused {
  readonly ok: false;
  readonly problem: SyncProblem;
  readonly detail: string;
}

type OpenedSection<Name extends SectionName = SectionName> =
  | {
      readonly ok: true;
      readonly envelope: SectionEnvelope<BodyOf<Name>>;
      readonly digest: string;
    }
  | Refused;

export function isTenantSection(name: string): name is TenantSection {
  return (tenantSections as readonly string[]).includes(name);
}

/**
 * Signs one version of a section as a compact JWS; `typ` distinguishes sections from other signed
 * objects.
 */
export function signSection(envelope: SectionEnvelope, key: SigningKey): string {
  return signJws(envelope, sectionType, key);
}

/** The digest that identifies a section in heartbeats: SHA-256 of the signed text. */
export function sectionDigest(token: string): string {
  return sha256(token);
}

/**
 * Verifies a section and parses its body. Refuses, in this order: a bad form or signature, another
 * tenant's section, a section copied to another section's key, and an invalid body. Never throws.
 */
export function openSection<Name extends SectionName>(
  token: string,
  keys: VerificationKeys,
  expected: { readonly tenant: string; readonly section: Name },
): OpenedSection<Name> {
  const verified = verifyJws(token, sectionType, keys, sectionLengthMax);
  if (!verified.ok) return verified;
  const envelope = envelopeSchema.safeParse(verified.payload);
  if (!envelope.success) return malformed(envelope.error);
  const { tenant, section, version, body } = envelope.data;
  if (tenant !== expected.tenant) {
    return { ok: false, problem: 'wrong_tenant', detail: `it belongs to tenant ${tenant}` };
  }
  if (section !== expected.section) {
    return { ok: false, problem: 'wrong_section', detail: `it is section ${section}` };
  }
  const parsed = schemaOf(expected.section).safeParse(body);
  if (!parsed.success) return malformed(parsed.error);
  const opened = { tenant, section, version, body: parsed.data };
  return { ok: true, envelope: opened, digest: sectionDigest(token) };
}

export function malformed(error: z.ZodError): Refused {
  return { ok: false, problem: 'malformed', detail: z.prettifyError(error) };
}

// The cast is needed because TypeScript cannot derive the schema's type from the name.
function schemaOf<Name extends SectionName>(name: Name): z.ZodType<BodyOf<Name>> {
  const schema: z.ZodType = isTenantSection(name)
    ? tenantSectionSchemas[name]
    : sidecarSectionSchema;
  return schema as z.ZodType<BodyOf<Name>>;
}
