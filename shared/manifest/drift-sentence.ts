import type { Drift } from './drift.ts';

/** The meaning of each drift class, for the person who must decide about the tool. */
const meanings: Readonly<Record<Drift['class'], string>> = {
  read_to_write_conversion: 'A tool that was approved for reading can now write',
  execution_capability_broadened: 'The tool can now run or reach more than was approved',
  publisher_unverified: 'The publisher of the tool is no longer verified',
  publisher_changed: 'The tool has another publisher',
  origin_changed: 'The tool is now served from another origin',
  oauth_scope_broadened: 'The tool now requests more OAuth scopes of the user',
  side_effect_added: 'The tool now does more than was approved',
  data_exposure_broadened: 'The tool now handles more sensitive data',
  risk_tier_raised: 'The tool is now riskier than when it was approved',
  input_schema_broadened: 'The tool now accepts arguments that nobody approved',
  description_changed: 'The model now reads another description of the tool',
  protocol_changed: 'The tool now uses another protocol',
  output_schema_changed: 'The tool has another output schema',
  manifest_changed: 'Another part of the manifest changed',
  input_schema_narrowed: 'The tool now accepts fewer arguments than were approved',
};

/**
 * Describes one drift in a sentence: meaning, place, and whether a human must approve the tool
 * again.
 */
export function driftSentence({ class: name, path, message, material }: Drift): string {
  const asks = material ? 'it must be approved again' : 'no new approval is needed';
  return `${meanings[name]} (${path}: ${message}); ${asks}.`;
}
