import { type BindingIndex, compileBindings } from '../../shared/binding/match.ts';
import type { BufferBudget } from '../recognise/buffer-budget.ts';
import { limitsByDefault } from '../recognise/recognise.ts';
import type { Replica } from '../replica/replica.ts';
import type { EnforceDeps } from './deps.ts';
import type { LiveDrift } from './live-drift.ts';

interface RecognitionParts {
  readonly replica: Replica;
  readonly liveDrift: LiveDrift;
  readonly bodyBytesMax: number;
  readonly buffers: BufferBudget;
}

/** Bindings are compiled once per change of their section. */
export function recognitionOf({
  replica,
  liveDrift,
  bodyBytesMax,
  buffers,
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
      buffers,
      toolHasOutputSchema: (tool) => liveDrift.hasOutputSchema(tool),
    };
  };
}
