import { describe, expect, it } from 'vitest';
import { LiveDrift } from '../../../proxy/enforce/live-drift.ts';
import type { PublishedTool } from '../../../shared/sync/sections.ts';

const approved: PublishedTool = {
  name: 'mcp.crm.find',
  manifestHash: 'sha256:m',
  approvedHash: 'sha256:m',
  approvedSurfaceHash: 'sha256:s1',
  approvalStatus: 'approved',
  riskTier: 'low',
};

function build(published: PublishedTool | undefined) {
  const reports: unknown[] = [];
  const state = { published };
  const drift = new LiveDrift({
    replica: {
      tool: () => state.published,
      publishedTool: () => state.published,
    },
    report: (told) => reports.push(told),
  });
  const observe = (surfaceHash: string) =>
    drift.observe({ tool: 'mcp.crm.find', surfaceHash, definition: {} });
  return { drift, reports, state, observe };
}

describe('LiveDrift', () => {
  it('keeps a tool that is listed as it was approved', () => {
    const { drift, observe, reports } = build(approved);
    expect(observe('sha256:s1')).toBe('keep');
    expect(drift.recordOf('mcp.crm.find')?.approvalStatus).toBe('approved');
    expect(reports).toEqual([]);
  });

  it('withholds a tool that changed, stops it from working, and reports it once per form', () => {
    const { drift, observe, reports } = build(approved);
    expect(observe('sha256:s2')).toBe('withhold');
    expect(observe('sha256:s2')).toBe('withhold');
    expect(drift.recordOf('mcp.crm.find')).toMatchObject({
      approvalStatus: 'reapproval_required',
      driftReason: 'tool.manifest_changed',
    });
    expect(reports).toEqual([
      { tool: 'mcp.crm.find', approved: 'sha256:s1', observed: 'sha256:s2' },
    ]);
    expect(observe('sha256:s3')).toBe('withhold');
    expect(reports).toHaveLength(2);
  });

  it('lets it work again once the server lists the approved form', () => {
    const { drift, observe } = build(approved);
    observe('sha256:s2');
    expect(observe('sha256:s1')).toBe('keep');
    expect(drift.recordOf('mcp.crm.find')?.approvalStatus).toBe('approved');
  });

  it('lets it work again once its new form is approved, before it is listed again', () => {
    const { drift, observe, state } = build(approved);
    observe('sha256:s2');
    state.published = { ...approved, approvedSurfaceHash: 'sha256:s2' };
    expect(drift.recordOf('mcp.crm.find')?.approvalStatus).toBe('approved');
  });

  it('has nothing to say about a tool that nobody registered', () => {
    const { drift, observe } = build(undefined);
    expect(observe('sha256:s2')).toBe('keep');
    expect(drift.recordOf('mcp.crm.other')).toBeUndefined();
  });
});
