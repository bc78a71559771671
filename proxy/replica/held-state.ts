import type { Binding } from '../../shared/binding/binding.ts';
import { type VerificationKeys, verificationKeys } from '../../shared/crypto/signing-key.ts';
import type { AgentRecord, DirectoryUser, KillSwitch } from '../../shared/decision/state.ts';
import { argsValidator } from '../../shared/manifest/validator.ts';
import type { PolicyCompiler } from '../../shared/policy/engine/compile.ts';
import type { PolicySet } from '../../shared/policy/engine/policy-set.ts';
import type {
  PublishedTool,
  SectionBodies,
  SidecarSectionBody,
  TenantSection,
} from '../../shared/sync/sections.ts';
import type { ToolRecord } from '../../shared/vocabulary/tool-record.ts';
import { HeldApprovals } from './held-approvals.ts';

/** The sections of a tenant in the form that decisions use. */
export interface HeldState {
  readonly tenant?: SectionBodies['tenant'];
  readonly policies?: PolicySet;
  readonly tools?: ReadonlyMap<string, HeldTool>;
  /** Names of tools by the hash of their approved form. */
  readonly toolForms?: ReadonlyMap<string, readonly string[]>;
  readonly agents?: ReadonlyMap<string, AgentRecord>;
  readonly users?: ReadonlyMap<string, DirectoryUser>;
  readonly bindings?: readonly Binding[];
  readonly killSwitches?: readonly KillSwitch[];
  readonly revocations?: Revocations;
  readonly passportKeys?: VerificationKeys;
  readonly approvals?: HeldApprovals;
  readonly credentialsVersion?: number;
  readonly lease?: string | undefined;
}

interface HeldTool {
  readonly record: ToolRecord;
  readonly published: PublishedTool;
}

interface Revocations {
  readonly jtis: ReadonlySet<string>;
  readonly agentIds: ReadonlySet<string>;
  readonly sidecarIds: ReadonlySet<string>;
}

type Apply<Body> = (body: Body, compiler: PolicyCompiler) => HeldState;

/**
 * For each section, a function that returns the state which the section contributes. The function
 * throws if a body is unusable; the held state is then unchanged.
 */
const contributions: { readonly [Name in TenantSection]: Apply<SectionBodies[Name]> } = {
  tenant: (tenant) => ({ tenant }),
  policies: ({ policies }, compiler) => ({ policies: compiler.compile(policies) }),
  tools: ({ tools }) => ({
    tools: new Map(tools.map((tool) => [tool.name, holdTool(tool)])),
    toolForms: formsOf(tools),
  }),
  agents: ({ agents, users }) => ({ agents: byId(agents), users: byId(users) }),
  bindings: ({ bindings }) => ({ bindings }),
  kill_switches: ({ killSwitches }) => ({ killSwitches }),
  revocations: ({ jtis, agentIds, sidecarIds }) => ({
    revocations: {
      jtis: new Set(jtis),
      agentIds: new Set(agentIds),
      sidecarIds: new Set(sidecarIds),
    },
  }),
  keys: ({ passportKeys }) => ({ passportKeys: verificationKeys(passportKeys) }),
};

/** The state with one tenant section applied. */
export function applyTenantSection<Name extends TenantSection>(
  state: HeldState,
  name: Name,
  body: SectionBodies[Name],
  compiler: PolicyCompiler,
): HeldState {
  return { ...state, ...contributions[name](body, compiler) };
}

/** The state with this sidecar's own section applied. */
export function applySidecarSection(state: HeldState, body: SidecarSectionBody): HeldState {
  return {
    ...state,
    approvals: new HeldApprovals(body.approvals),
    credentialsVersion: body.credentialsVersion,
    lease: body.lease,
  };
}

function holdTool(published: PublishedTool): HeldTool {
  const { name, manifestHash, approvedHash, approvalStatus, riskTier, driftReason } = published;
  const record = { name, manifestHash, approvedHash, approvalStatus, riskTier, driftReason };
  const { inputSchema } = published;
  return {
    published,
    record:
      inputSchema === undefined ? record : { ...record, validateArgs: argsValidator(inputSchema) },
  };
}

function byId<Item extends { readonly id: string }>(
  items: readonly Item[],
): ReadonlyMap<string, Item> {
  return new Map(items.map((item) => [item.id, item]));
}

function formsOf(tools: readonly PublishedTool[]): ReadonlyMap<string, readonly string[]> {
  const forms = new Map<string, string[]>();
  for (const { name, approvedFormHash } of tools) {
    if (approvedFormHash === undefined) continue;
    const names = forms.get(approvedFormHash);
    if (names === undefined) forms.set(approvedFormHash, [name]);
    else names.push(name);
  }
  return forms;
}
