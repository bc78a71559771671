/** The maximum size of each part of a policy. */
export const policyLimits = {
  idLength: 100,
  nameLength: 100,
  reasonLength: 200,
  descriptionLength: 4000,
  channelLength: 100,
  scopeEntries: 1000,
  scopeEntryLength: 256,
  scopeGlobs: 100,
  rules: 2000,
  conditionsPerRule: 100,
  pathLength: 256,
  pathSegments: 16,
  listEntries: 5000,
  patternLength: 1000,
  /** Limit for all patterns of a policy together, so that compiling does not delay decisions. */
  patternInstructions: 20_000,
  quorum: 100,
  /** Thirty days. */
  slaSeconds: 2_592_000,
} as const;
