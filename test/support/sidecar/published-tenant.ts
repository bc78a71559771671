import type { Clock } from '../../../shared/base/clock.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { generateSigningKey, verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { buildClaims, signPassport } from '../../../shared/passport/issue.ts';
import {
  type SectionBodies,
  type SectionName,
  type SidecarSectionBody,
  sidecarSection,
  tenantSections,
} from '../../../shared/sync/sections.ts';
import { heartbeatSection, signHeartbeat } from '../../../shared/sync/signed-heartbeat.ts';
import { sectionDigest, signSection } from '../../../shared/sync/signed-section.ts';

export const sidecarId = 'sc_1';

/** A tenant's signed state. The test controls every version, signature and heartbeat. */
export class PublishedTenant {
  readonly tenantId: string;
  readonly key = generateSigningKey();
  readonly passportKey = generateSigningKey();
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly bodies: { -readonly [Name in keyof SectionBodies]: SectionBodies[Name] };
  readonly versions = new Map<string, number>();
  readonly tokens = new Map<string, string>();
  sequence = 0;

  /** The keys that a sidecar would pin if it enrolled at this moment. */
  get sectionKeys() {
    return verificationKeys([this.key.publicJwk]);
  }

  constructor(bus: Bus, clock: Clock, tenantId = 'acme') {
    this.#bus = bus;
    this.#clock = clock;
    this.tenantId = tenantId;
    this.bodies = {
      tenant: { id: tenantId, name: 'Acme', mode: 'enforce' },
      policies: { policies: [] },
      tools: { tools: [] },
      agents: {
        agents: [{ id: '1', name: 'bot', capabilities: ['pay.*'] }],
        users: [{ id: 'ann' }],
      },
      bindings: { bindings: [] },
      kill_switches: { killSwitches: [] },
      revocations: { jtis: [], agentIds: [], sidecarIds: [] },
      keys: { passportKeys: [this.passportKey.publicJwk] },
    };
  }

  /** Signs the next version of a section without publishing it. */
  sign<Name extends keyof SectionBodies>(name: Name, body?: SectionBodies[Name]): string {
    if (body !== undefined) this.bodies[name] = body;
    return this.#sign(name, this.bodies[name]);
  }

  signOwn(body: Partial<SidecarSectionBody> = {}, id = sidecarId): string {
    return this.#sign(sidecarSection(id), { approvals: [], credentialsVersion: 0, ...body });
  }

  heartbeat(change: { readonly time?: number; readonly sequence?: number } = {}): string {
    const sections = Object.fromEntries(
      tenantSections.map((name) => [
        name,
        {
          version: this.versions.get(name) ?? 1,
          digest: sectionDigest(this.tokens.get(name) ?? ''),
        },
      ]),
    );
    this.sequence = change.sequence ?? this.sequence + 1;
    return signHeartbeat(
      {
        tenant: this.tenantId,
        sequence: this.sequence,
        time: change.time ?? this.#clock.now(),
        sections,
      },
      this.key,
    );
  }

  lease(change: { readonly size?: number; readonly sidecar?: string; readonly ttl?: number } = {}) {
    return signPassport(
      buildClaims({
        issuer: 'sallyport',
        agentId: '1',
        audience: `sidecar://${change.sidecar ?? sidecarId}`,
        tenantId: this.tenantId,
        userId: 'ann',
        goal: '',
        allowedTools: ['pay.*'],
        riskTier: 'low',
        policyId: '',
        policyHash: '',
        ttlSeconds: change.ttl ?? 300,
        leaseSize: change.size ?? 10_000_000,
        nowMs: this.#clock.now(),
      }),
      this.passportKey,
    );
  }

  async put(name: SectionName | typeof heartbeatSection, token: string): Promise<void> {
    await this.#bus.publish(this.tenantId, name, token);
  }

  async publish<Name extends keyof SectionBodies>(
    name: Name,
    body?: SectionBodies[Name],
  ): Promise<void> {
    await this.put(name, this.sign(name, body));
  }

  async publishOwn(body: Partial<SidecarSectionBody> = {}): Promise<void> {
    await this.put(sidecarSection(sidecarId), this.signOwn(body));
  }

  async beat(change: Parameters<PublishedTenant['heartbeat']>[0] = {}): Promise<void> {
    await this.put(heartbeatSection, this.heartbeat(change));
  }

  /** Publishes all sections, and a heartbeat that names them. */
  async publishAll(): Promise<void> {
    for (const name of tenantSections) await this.publish(name);
    await this.beat();
  }

  #sign(section: string, body: object): string {
    const version = (this.versions.get(section) ?? 0) + 1;
    this.versions.set(section, version);
    const token = signSection({ tenant: this.tenantId, section, version, body }, this.key);
    this.tokens.set(section, token);
    return token;
  }
}
