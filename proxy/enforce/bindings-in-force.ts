import { type BindingIndex, compileBindings } from '../../shared/binding/match.ts';
import { limitsByDefault } from '../recognise/recognise.ts';
import type { Replica } from '../replica/replica.ts';
import type { EnforceDeps } from './deps.ts';
import type { LiveDrift } from './live-drift.ts';

interface RecognitionParts {
  readonly replica: Replica;
  readonly liveDrift: LiveDrift;
  readonly bodyBytesMax: number;
}

/** Bindings are compiled once per change of their section. */
export function recognitionOf({
  replica,
  liveDrift,
  bodyBytesMax,
}: RecognitionParts): EnforceDeps['recognition'] {
  const limits = { ...limitsByDefault, bodyBytesMax };
  let index: BindingIndex | undefined;
  replica.onChange('bindings', () => {
    index = undefined;
  });
  return () => {
    index ??= compileBindings(replica.bindings);
    return {
      index,
      limits,
      toolHasOutputSchema: (tool) => liveDrift.hasOutputSchema(tool),
    };
  };
}
