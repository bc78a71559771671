import type { Drift } from './drift.ts';

/** What each class of drift means for whoever must decide about the tool. */
const meanings: Readonly<Record<Drift['class'], string>> = {
  read_to_write_conversion: 'A tool that was approved for reading can now change things',
  execution_capability_broadened: 'The tool can now run or reach more than was approved',
  publisher_unverified: 'Nobody vouches for the publisher of the tool any more',
  publisher_changed: 'Somebody else now publishes the tool',
  origin_changed: 'The tool is now served from another place',
  oauth_scope_broadened: 'The tool now asks for more rights on behalf of the user',
  side_effect_added: 'The tool now does more than was approved',
  data_exposure_broadened: 'The tool now handles more sensitive data',
  risk_tier_raised: 'The tool is now riskier than when it was approved',
  input_schema_broadened: 'The tool now takes arguments that nobody approved',
  description_changed: 'The model now reads another description of the tool',
  protocol_changed: 'The tool is now spoken to in another protocol',
  output_schema_changed: 'The tool now answers in another form',
  manifest_changed: 'Something else about the tool changed',
  input_schema_narrowed: 'The tool now takes fewer arguments than were approved',
};

/** One drift as a sentence: what it means, what changed where, and whether a human is needed. */
export function driftSentence({ class: name, path, message, material }: Drift): string {
  const asks = material ? 'it must be approved again' : 'no new approval is needed';
  return `${meanings[name]} (${path}: ${message}); ${asks}.`;
}
