/** The tool that the benchmarks call. */
export const tool = 'bank.pay';

const rules = 200;
const tools = 50;

/** 200 rules for 50 tools. The last rule allows the benchmark's calls. */
export const benchPolicy = {
  id: 'bench',
  version: 1,
  rules: Array.from({ length: rules }, (_, index) => ruleAt(index)),
};

/** Policy for other traffic through the measured sidecar: an MCP tool, and downloads. */
export const otherPolicy = {
  id: 'bench-other',
  version: 1,
  rules: ['mcp.bench.pay', 'http.get.127.0.0.1'].map((name) => ({
    name,
    decision: 'allow',
    reason: 'bench.other',
    when: { all: [{ path: 'tool.name', operator: '==', value: name }] },
  })),
};

function ruleAt(index: number) {
  const isLast = index === rules - 1;
  const name = index % tools === tools - 1 ? tool : `bank.tool${index % tools}`;
  const limit = isLast
    ? { path: 'args.amount', operator: '<=', value: 100 }
    : { path: 'args.amount', operator: '>=', value: 1_000 + index };
  return {
    name: `rule ${index}`,
    decision: isLast ? 'allow' : 'deny',
    reason: `bench.rule_${index}`,
    when: { all: [{ path: 'tool.name', operator: '==', value: name }, limit] },
  };
}
