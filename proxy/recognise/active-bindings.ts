import { type BindingIndex, compileBindings } from '../../shared/binding/match.ts';
import type { BufferBudget } from '../call/buffer-budget.ts';
import type { RecogniseDeps } from '../call/recognition.ts';
import type { LiveDrift } from '../mcp/live-drift.ts';
import type { Replica } from '../replica/replica.ts';
import { limitsByDefault } from './recognise.ts';

interface RecognitionParts {
  readonly replica: Replica;
  readonly liveDrift: LiveDrift;
  readonly bodyBytesMax: number;
  readonly buffers: BufferBudget;
}

/**
 * Returns a function that supplies the dependencies of recognition. Compiles the bindings again
 * only when their section changes.
 */
export function recognitionOf({
  replica,
  liveDrift,
  bodyBytesMax,
  buffers,
}: RecognitionParts): () => RecogniseDeps {
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
