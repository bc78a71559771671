import { describe, expect, it } from 'vitest';
import { LiveDrift, type ToolReport } from '../../../proxy/mcp/live-drift.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { formHash, surfaceHash } from '../../../shared/manifest/hash.ts';
import type { PublishedTool } from '../../../shared/sync/sections.ts';

const tool = 'mcp.crm.find';
const shown = (description: string): JsonObject => ({ name: 'find', description });
const hashOf = (description: string) => surfaceHash({ ...shown(description), name: tool });

const approved: PublishedTool = {
  name: tool,
  manifestHash: 'sha256:m',
  approvedHash: 'sha256:m',
  approvedSurfaceHash: hashOf('Finds.'),
  approvedFormHash: formHash(shown('Finds.')),
  approvalStatus: 'approved',
  riskTier: 'low',
};

function build(published: PublishedTool | undefined) {
  const reports: ToolReport[] = [];
  const state = { published, outOfReach: new Set<string>() };
  const find = (name: string) => (state.published?.name === name ? state.published : undefined);
  const drift = new LiveDrift({
    replica: {
      tool: find,
      publishedTool: find,
      toolsOfForm: (hash) =>
        hash === state.published?.approvedFormHash ? [state.published?.name ?? ''] : [],
    },
    isUnreachable: (name) => state.outOfReach.has(name),
    report: (told) => reports.push(told),
  });
  const observe = (description: string, more: JsonObject = {}) =>
    drift.observe({ tool, definition: { ...shown(description), ...more } });
  return { drift, reports, state, observe };
}

describe('a registered tool', () => {
  it('stays in the list if the server lists its approved form', () => {
    const { drift, observe, reports } = build(approved);
    expect(observe('Finds.')).toBe('keep');
    expect(drift.recordOf(tool)?.approvalStatus).toBe('approved');
    expect(reports).toEqual([]);
  });

  it('is withheld and denied after a change, and each changed form is reported once, with its definition', () => {
    const { drift, observe, reports } = build(approved);
    expect(observe('Finds all.')).toBe('withhold');
    expect(observe('Finds all.')).toBe('withhold');
    expect(drift.recordOf(tool)).toMatchObject({
      approvalStatus: 'reapproval_required',
      driftReason: 'tool.manifest_changed',
    });
    expect(reports).toEqual([
      {
        kind: 'drifted',
        tool,
        approved: hashOf('Finds.'),
        observed: hashOf('Finds all.'),
        surface: JSON.stringify({ description: 'Finds all.', name: tool }),
      },
    ]);
    observe('Finds more.');
    observe('Finds all.');
    expect(reports).toHaveLength(2);
  });

  it('is withheld in every changed form; at most eight forms are reported', () => {
    const { observe, reports } = build(approved);
    for (let form = 0; form < 1_000; form++) expect(observe(`Form ${form}`)).toBe('withhold');
    expect(reports).toHaveLength(8);
  });

  it('is approved again when the server lists the approved form', () => {
    const { drift, observe } = build(approved);
    observe('Finds all.');
    expect(observe('Finds.')).toBe('keep');
    expect(drift.recordOf(tool)?.approvalStatus).toBe('approved');
  });

  it('is approved again when its new form is approved, even before the server lists it again', () => {
    const { drift, observe, state } = build(approved);
    observe('Finds all.');
    state.published = { ...approved, approvedSurfaceHash: hashOf('Finds all.') };
    expect(drift.recordOf(tool)?.approvalStatus).toBe('approved');
  });

  it.each([
    ['that cannot be read', { inputSchema: 'none' }],
    ['that is longer than a report', { inputSchema: { enum: ['x'.repeat(40_000)] } }],
  ])('is withheld in a form %s, and the report does not contain the form', (_what, more) => {
    const { observe, reports } = build(approved);
    expect(observe('Finds.', more)).toBe('withhold');
    expect(reports).toMatchObject([{ kind: 'drifted', surface: undefined }]);
  });

  it('is withheld if every call to it is statically denied', () => {
    const { observe, reports, state } = build(approved);
    state.outOfReach.add(tool);
    expect(observe('Finds.')).toBe('withhold');
    expect(reports).toEqual([]);
  });
});

describe('an unregistered tool', () => {
  it('stays in the list, because policies decide its calls', () => {
    const { drift, observe, reports } = build(undefined);
    expect(observe('Finds.')).toBe('keep');
    expect(drift.recordOf('mcp.crm.other')).toBeUndefined();
    expect(reports).toEqual([]);
  });

  it('is reported once as renamed if it equals an approved tool of the same server', () => {
    const { drift, reports } = build(approved);
    const definition = { ...shown('Finds.'), name: 'search' };
    for (let time = 0; time < 3; time++) {
      expect(drift.observe({ tool: 'mcp.crm.search', definition })).toBe('keep');
    }
    drift.observe({ tool: 'mcp.other.search', definition });
    expect(reports).toEqual([
      {
        kind: 'renamed',
        tool: 'mcp.crm.search',
        renamedFrom: tool,
        observed: surfaceHash({ ...definition, name: 'mcp.crm.search' }),
      },
    ]);
  });

  it('is evicted from memory if its server lists too many tools; the tools of other servers are kept', () => {
    const { drift } = build(undefined);
    const outputSchema = { type: 'object' };
    drift.observe({ tool: 'mcp.good.report', definition: { name: 'report', outputSchema } });
    for (let index = 0; index < 20_000; index++) {
      drift.observe({ tool: `mcp.evil.t${index}`, definition: { name: 't', outputSchema } });
    }
    expect(drift.hasOutputSchema('mcp.good.report')).toBe(true);
    expect(drift.hasOutputSchema('mcp.evil.t19999')).toBe(true);
    expect(drift.hasOutputSchema('mcp.evil.t17999')).toBe(false);
  });
});
