import type { JsonObject } from '../../shared/base/json.ts';
import { sha256 } from '../../shared/crypto/hash.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { formHash, surfaceHash, surfaceOf } from '../../shared/manifest/hash.ts';
import type { ToolRecord } from '../../shared/vocabulary/tool-record.ts';
import type { Replica } from '../replica/replica.ts';
import { BoundedNames, ReportedForms, serverOf } from './bounded-names.ts';
import type { ListedTool } from './tools-list.ts';

/** A tool whose description differs from the approved one, or that has a new name on its server. */
export type ToolReport =
  | {
      readonly kind: 'drifted';
      readonly tool: string;
      /** Hash of the approved surface. */
      readonly approved: string;
      readonly observed: string;
      /** The observed surface as canonical JSON; undefined if it is unreadable or too long. */
      readonly surface: string | undefined;
    }
  | {
      readonly kind: 'renamed';
      readonly tool: string;
      readonly renamedFrom: string;
      readonly observed: string;
    };

interface LiveDriftOptions {
  readonly replica: Pick<Replica, 'tool' | 'publishedTool' | 'toolsOfForm'>;
  /** True if calls to this tool are refused, whatever their arguments. */
  readonly isUnreachable: (tool: string) => boolean;
  /** Called only once for each form of a tool. The number of forms reported per tool is limited. */
  readonly report: (report: ToolReport) => void;
}

const surfaceCharsMax = 32_768;
/** Number of a server's unknown tools that are checked for a rename; policy decides on the rest. */
const unknownToolsMax = 1_000;

/**
 * Compares the tools that servers list with their approved forms. A changed tool is withheld from
 * lists and denied until its new form is approved through the control plane; a description that a
 * server sends is never approved automatically.
 */
export class LiveDrift {
  readonly #options: LiveDriftOptions;
  /** For each tool that differs from its approved form: the hash of the surface that was last seen. */
  readonly #changed = new Map<string, string>();
  readonly #withOutputSchema = new BoundedNames();
  readonly #unknown = new BoundedNames(unknownToolsMax);
  readonly #reported = new ReportedForms();

  constructor(options: LiveDriftOptions) {
    this.#options = options;
  }

  observe({ tool, definition }: ListedTool): 'keep' | 'withhold' {
    if (definition.outputSchema === undefined) this.#withOutputSchema.delete(tool);
    else this.#withOutputSchema.add(tool);
    const published = this.#options.replica.publishedTool(tool);
    const approved = published?.approvedSurfaceHash;
    if (published === undefined) this.#noteRename(tool, definition);
    else if (approved !== undefined && !this.#isAsApproved(tool, definition, approved)) {
      return 'withhold';
    }
    // A tool that waits for a human is not shown: its description may contain instructions.
    return this.#options.isUnreachable(tool) ? 'withhold' : 'keep';
  }

  /**
   * Called when registered tools change, because an unknown tool may be a renamed registered one.
   */
  toolsChanged(): void {
    this.#unknown.clear();
  }

  /**
   * True if the agent's client received an `outputSchema` for this tool and therefore checks
   * results against it.
   */
  hasOutputSchema(tool: string): boolean {
    return this.#withOutputSchema.has(tool);
  }

  /**
   * The tool's record for decisions; a tool that differs from its approved form needs reapproval.
   */
  recordOf(tool: string): ToolRecord | undefined {
    const record = this.#options.replica.tool(tool);
    const observed = this.#changed.get(tool);
    // If the control plane already refuses the tool, the tool's record explains the refusal better.
    if (record?.approvalStatus !== 'approved' || observed === undefined) return record;
    if (this.#options.replica.publishedTool(tool)?.approvedSurfaceHash === observed) {
      this.#changed.delete(tool);
      return record;
    }
    return {
      ...record,
      approvalStatus: 'reapproval_required',
      driftReason: 'tool.manifest_changed',
    };
  }

  #isAsApproved(tool: string, definition: JsonObject, approved: string): boolean {
    const listed = { ...definition, name: tool };
    const hash = readable(() => surfaceHash(listed));
    // An unreadable definition has no normal form, so its bytes identify it.
    const observed = hash ?? sha256(JSON.stringify(definition));
    if (observed === approved) {
      this.#changed.delete(tool);
      return true;
    }
    this.#changed.set(tool, observed);
    if (this.#reported.isNew(tool, { approved, observed })) {
      const text = hash === undefined ? undefined : canonicalJson(surfaceOf(listed));
      const surface = text === undefined || text.length > surfaceCharsMax ? undefined : text;
      this.#options.report({ kind: 'drifted', tool, approved, observed, surface });
    }
    return false;
  }

  #noteRename(tool: string, definition: JsonObject): void {
    if (this.#unknown.has(tool) || this.#unknown.isFull(tool)) return;
    this.#unknown.add(tool);
    const listed = { ...definition, name: tool };
    const form = readable(() => formHash(listed));
    if (form === undefined) return;
    const renamedFrom = this.#options.replica
      .toolsOfForm(form)
      .find((name) => serverOf(name) === serverOf(tool));
    if (renamedFrom === undefined) return;
    this.#options.report({ kind: 'renamed', tool, renamedFrom, observed: surfaceHash(listed) });
  }
}

function readable<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof GatewayError) return undefined;
    throw error;
  }
}
