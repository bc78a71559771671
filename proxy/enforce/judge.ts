import { digestOf } from '../../shared/approval/action-digest.ts';
import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Bus } from '../../shared/bus/bus.ts';
import { decide } from '../../shared/decision/decide.ts';
import { effectIn, reachVerdict } from '../../shared/decision/reach-verdict.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { errorFamily } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { anyUser } from '../../shared/passport/claims.ts';
import type { PassportState } from '../../shared/passport/passport-state.ts';
import { claimPassport } from '../../shared/passport/single-use-claim.ts';
import { readPassportAsync } from '../../shared/passport/verify.ts';
import type { DeliveredApproval } from '../../shared/sync/sections.ts';
import type { GiveBack } from '../../shared/usage/usage-book.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { ApprovalProof } from '../../shared/vocabulary/approval-proof.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import type { Identity } from '../base/identity.ts';
import type { ControlPlane } from '../control-plane/client.ts';
import type { LiveDrift } from '../mcp/live-drift.ts';
import { recordedTool } from '../records/call-records.ts';
import type { Replica } from '../replica/replica.ts';
import type { UsageCounter } from '../replica/usage-counter.ts';
import type { UsedPassports } from './used-passports.ts';

export interface JudgeDeps {
  readonly identity: Identity;
  readonly replica: Replica;
  readonly bus: Bus;
  readonly liveDrift: LiveDrift;
  readonly controlPlane: ControlPlane;
  readonly clock: Clock;
  readonly log: Log;
  /** Grants used here that the replica may still show as unused. */
  readonly spentApprovals: Set<number>;
  readonly usedPassports: UsedPassports;
  readonly usage: UsageCounter;
}

const agentAudience = 'gateway://agents';

export interface Judgement {
  readonly verdict: Verdict;
  /** What was judged, and may be performed: after `modify`, with the approver's arguments. */
  readonly action: Action;
  /** The approval that this action waits for, was refused by, or rests on. */
  readonly approval?: DeliveredApproval | undefined;
  /** Takes the call out of the budgets again, should it not go through. */
  readonly release: GiveBack;
  /** The passport that the agent presented, compact JWS; its one use is taken. */
  readonly presented?: string | undefined;
}

/**
 * Decides one action from the replica in memory. The network is used for two things only:
 * to claim a passport, and to spend a granted approval.
 */
export async function judge(
  action: Action,
  presented: string | undefined,
  deps: JudgeDeps,
): Promise<Judgement> {
  if (needsUsage(action, deps)) await deps.usage.firstTry();
  const first =
    presented === undefined
      ? await judgeByLease(action, deps)
      : await judgePresented(action, presented, deps);
  return first.verdict.decision === 'require_approval' ? judgeByApproval(first, deps) : first;
}

function judgeByLease(action: Action, deps: JudgeDeps): Promise<Judgement> {
  // Without one it is judged all the same: the tenant's mode says what a refusal means (design 3).
  const passport = deps.replica.nextUse() ?? noLease;
  return judgeWith(action, { passport }, deps);
}

/** A passport that the agent presents says for which user it acts. */
async function judgePresented(
  action: Action,
  presented: string,
  deps: JudgeDeps,
): Promise<Judgement> {
  const passport = await readPresented(presented, deps);
  const userId = userOf(passport, action) ?? action.userId;
  return { ...(await judgeWith({ ...action, userId }, { passport }, deps)), presented };
}

/** The user that a passport of this agent is bound to, if it is bound to one. */
function userOf(passport: PassportState, { agentId }: Action): string | undefined {
  if (passport.form !== 'signed' || passport.claims.sub !== agentId) return undefined;
  return passport.claims.user_id === anyUser ? undefined : passport.claims.user_id;
}

/** Looks for a human's decision on this very action, whoever's passport came with it. */
export async function judgeByApproval(first: Judgement, deps: JudgeDeps): Promise<Judgement> {
  const { action } = first;
  const digest = digestOf(action, deps.replica.tool(action.tool)?.manifestHash);
  const standing = await judgeByStandingGrant(first, digest, deps);
  if (standing !== undefined) return standing;
  const terms = effectIn(first.verdict, 'open_approval')?.terms;
  const approval = deps.replica.approvalFor(digest, terms);
  if (approval === undefined) return first;
  if (approval.status !== 'approved' && approval.status !== 'modified') {
    return { ...first, approval };
  }
  const isSpent = approval.used === true || deps.spentApprovals.has(approval.id);
  if (isSpent || approval.passport === undefined) return first;
  const granted =
    approval.status === 'modified'
      ? { ...action, args: approval.effectiveArgs ?? action.args }
      : action;
  const passport = await readPresented(approval.passport, deps);
  // The grant's one use is taken by spending the approval, which this passport stands for.
  first.release();
  return { ...(await judgeWith(granted, { passport: claimed(passport) }, deps)), approval };
}

/**
 * The first standing grant that covers the call and has a use left. A denial of this very action
 * is not overruled by a grant for whatever the arguments.
 */
async function judgeByStandingGrant(
  { action, presented, release, verdict }: Judgement,
  digest: string,
  deps: JudgeDeps,
): Promise<Judgement | undefined> {
  // What goes on without a human costs nobody a use.
  if (!verdict.enforced) return undefined;
  const { replica, spentApprovals } = deps;
  const isDenied = replica.approvalFor(digest)?.status === 'denied';
  for (const approval of replica.standingGrantsFor(action, digest)) {
    if (spentApprovals.has(approval.id) || (isDenied && approval.grant?.scope === 'tool')) continue;
    const passport = await heldPassport(presented, deps);
    const judged = await judgeWith(action, { passport, grant: proofOf(approval) }, deps);
    if (judged.verdict.decision !== 'require_approval') {
      release();
      return { ...judged, presented, approval };
    }
    judged.release();
  }
  return undefined;
}

/** What the call rests on besides the grant, as it stands now: it may have been held a while. */
async function heldPassport(
  presented: string | undefined,
  deps: JudgeDeps,
): Promise<PassportState> {
  if (presented === undefined) return deps.replica.nextUse() ?? noLease;
  return claimed(await readPresented(presented, deps));
}

const noLease = { form: 'no_lease' } as const;

function claimed(passport: PassportState): PassportState {
  return passport.form === 'signed' ? { ...passport, use: 'claimed' } : passport;
}

interface Authority {
  readonly passport: PassportState;
  readonly grant?: ApprovalProof | undefined;
}

async function judgeWith(
  action: Action,
  authority: Authority,
  deps: JudgeDeps,
): Promise<Judgement> {
  const { bus, controlPlane, identity, clock, log } = deps;
  const { verdict, giveBack: release } = await reachVerdict(authority, {
    decideWith: ({ passport = noLease, grant }) =>
      decide(action, { ...stateFor(action, passport, deps), grant }, clock.now()),
    claim: async (claim) => {
      const nowMs = clock.now();
      const claimed = await claimPassport(claim, {
        bus,
        tenantId: identity.tenantId,
        nowMs,
        claimDurably: controlPlane.claimPassport,
        onFailure: (err) => log.warn({ err, jti: claim.jti }, 'a passport could not be claimed'),
      });
      if (claimed !== 'claimed') return claimed;
      return deps.usedPassports.add(claim.jti, { ...claim, nowMs }) ? 'claimed' : 'replayed';
    },
    spend: ({ approvalId }) => spendApproval(approvalId, deps),
    count: ({ sums }) => deps.usage.count(recordedTool(action.tool), sums),
  });
  return { verdict, action, release };
}

/** Uses up a granted approval; false when it was used before. Anything else that fails is thrown. */
async function spendApproval(
  approvalId: number,
  { controlPlane, replica, spentApprovals }: JudgeDeps,
): Promise<boolean> {
  const isStanding = replica.approvalById(approvalId)?.grant !== undefined;
  try {
    await controlPlane.spendApproval(approvalId);
    if (!isStanding) spentApprovals.add(approvalId);
    return true;
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    if (isStanding && error.kind.grant === 'over') {
      // A standing grant that is over says nothing any more: a human is asked.
      spentApprovals.add(approvalId);
      return false;
    }
    if (error.code === 'approval.used') return false;
    if (errorFamily(error.code) === 'approval') throw error;
    throw new GatewayError('approval.unavailable', { cause: error });
  }
}

function stateFor(action: Action, passport: PassportState, deps: JudgeDeps): DecisionState {
  const { replica, identity, liveDrift } = deps;
  return {
    point: 'enforcement',
    audience: audienceOf(passport, identity),
    tenant: replica.tenant,
    environment: identity.environment,
    killSwitches: replica.killSwitches,
    agent: replica.agent(action.agentId),
    agentDisabled: replica.revocationOf(action.agentId) === 'agent.disabled',
    user: replica.user(action.userId),
    tool: liveDrift.recordOf(action.tool),
    passport,
    policies: replica.policies,
    usage: needsUsage(action, deps) ? deps.usage.of(recordedTool(action.tool)) : undefined,
  };
}

function needsUsage({ tool, agentId }: Action, { replica }: JudgeDeps): boolean {
  return replica.policies.usage.needsOf(tool, agentId) !== undefined;
}

/** Passports for agents in general are good here, too (contract 2.6). */
function audienceOf(passport: PassportState, { sidecarId }: Identity): string {
  const isGeneral =
    passport.form === 'signed' &&
    passport.source === 'presented' &&
    passport.claims.aud === agentAudience;
  return isGeneral ? agentAudience : `sidecar://${sidecarId}`;
}

async function readPresented(token: string, { replica }: JudgeDeps): Promise<PassportState> {
  const reading = await readPassportAsync(token, replica.passportKeys);
  if (reading.form !== 'signed') return reading;
  const { claims } = reading;
  const approved =
    claims.approval_hash === null ? undefined : replica.approvalByHash(claims.approval_hash);
  return {
    form: 'signed',
    claims,
    source: 'presented',
    revoked: replica.isRevoked(claims.jti),
    use: 'unclaimed',
    approval: approved && proofOf(approved),
  };
}

function proofOf(approved: DeliveredApproval): ApprovalProof {
  return {
    approvalId: approved.id,
    eventHash: approved.eventHash ?? '',
    actionDigest: approved.effectiveDigest ?? approved.actionDigest,
    granted: approved.status === 'approved' || approved.status === 'modified',
    used: approved.used === true,
    expiresAtMs: approved.expiresAtMs,
    deciders: approved.deciders,
    standing: approved.grant,
  };
}
