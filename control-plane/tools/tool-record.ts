import { riskTiers } from '../../shared/decision/action.ts';
import { approvalStatuses, type ToolRecord } from '../../shared/manifest/tool-record.ts';

