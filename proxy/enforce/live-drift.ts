import type { ToolRecord } from '../../shared/manifest/tool-record.ts';
import type { ListedTool } from '../recognise/tools-list.ts';
import type { Replica } from '../replica/replica.ts';

interface LiveDriftOptions {
  readonly replica: Pick<Replica, 'tool' | 'publishedTool'>;
  /** Reports a tool that changed since approval; called once per changed form. */
  readonly report: (drift: {
    readonly tool: string;
    readonly approved: string;
    readonly observed: string;
  }) => void;
}

/**
 * What servers say about their tools, held against what was approved. A tool that changed is
 * withheld from lists and stops working until its new form is approved through the control
 * plane; what a server says is never approved by itself.
 */
export class LiveDrift {
  readonly #options: LiveDriftOptions;
  /** Surface hash seen last, of tools that differ from their approved form. */
  readonly #changed = new Map<string, string>();
  readonly #withOutputSchema = new Set<string>();

  constructor(options: LiveDriftOptions) {
    this.#options = options;
  }

  observe({ tool, surfaceHash: observed, definition }: ListedTool): 'keep' | 'withhold' {
    if (definition.outputSchema === undefined) this.#withOutputSchema.delete(tool);
    else this.#withOutputSchema.add(tool);
    const approved = this.#options.replica.publishedTool(tool)?.approvedSurfaceHash;
    if (approved === undefined || approved === observed) {
      this.#changed.delete(tool);
      return 'keep';
    }
    if (this.#changed.get(tool) !== observed) {
      this.#changed.set(tool, observed);
      this.#options.report({ tool, approved, observed });
    }
    return 'withhold';
  }

  /** Whether the agent's client has been told of an `outputSchema`, against which it checks results. */
  hasOutputSchema(tool: string): boolean {
    return this.#withOutputSchema.has(tool);
  }

  /** The tool as decisions must see it: its record, or the fact that it is no longer what was approved. */
  recordOf(tool: string): ToolRecord | undefined {
    const record = this.#options.replica.tool(tool);
    const observed = this.#changed.get(tool);
    if (record === undefined || observed === undefined) return record;
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
}
