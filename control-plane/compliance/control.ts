import type { JsonObject } from '../../shared/base/json.ts';
import type { ControlId, ControlReason, ControlReport } from '../../shared/contract/compliance.ts';
import type { Services } from '../core/services.ts';

/** A reason why a control fails. */
export interface Finding {
  readonly reason: ControlReason;
  readonly message: string;
  /** Ids of all objects that the finding concerns; a report lists the first ones. */
  readonly subjects?: readonly (string | number)[];
  readonly nextStep: string;
}

/** The facts that a check read, recorded as evidence, and the check's findings. */
export interface Assessment {
  readonly evidence: JsonObject;
  readonly findings: readonly Finding[];
}

/** One of the six controls. `assess` reads data and changes nothing. */
export interface Control {
  readonly id: ControlId;
  readonly title: string;
  readonly frameworks: Readonly<Record<string, readonly string[]>>;
  assess(services: Services, tenantId: string): Promise<Assessment>;
}

const subjectsMax = 20;

/**
 * Checks a control. If the check throws, the control counts as failed, because nothing was proved.
 */
export async function assessControl(
  services: Services,
  tenantId: string,
  { id, title, frameworks, assess }: Control,
): Promise<ControlReport> {
  const { evidence, findings } = await assess(services, tenantId).catch((error: unknown) => {
    services.log.error({ err: error, tenantId, control: id }, 'could not check a control');
    return brokenCheck;
  });
  return {
    id,
    title,
    status: findings.length === 0 ? 'pass' : 'fail',
    checked_at: new Date(services.clock.now()).toISOString(),
    evidence,
    findings: findings.map(({ reason, message, subjects = [], nextStep }) => ({
      reason,
      message,
      subjects: subjects.slice(0, subjectsMax).map(String),
      count: subjects.length,
      next_step: nextStep,
    })),
    frameworks: Object.fromEntries(
      Object.entries(frameworks).map(([framework, clauses]) => [framework, [...clauses]]),
    ),
    next_step: findings[0]?.nextStep ?? null,
  };
}

const brokenCheck: Assessment = {
  evidence: {},
  findings: [
    {
      reason: 'check_failed',
      message: 'The data of this control could not be read.',
      nextStep: 'Read the cause in the log of the control plane, and request the report again.',
    },
  ],
};

/** Returns a finding about these subjects, or no finding if the list is empty. */
export function findingOn(
  subjects: readonly (string | number)[],
  { reason, message, nextStep }: Omit<Finding, 'subjects'>,
): readonly Finding[] {
  return subjects.length === 0 ? [] : [{ reason, message, subjects, nextStep }];
}

/** Returns the finding for a control that has no evidence yet. */
export function insufficient(message: string, nextStep: string): Finding {
  return { reason: 'insufficient_evidence', message, nextStep };
}
