import { type BindingIndex, compileBindings } from '../../shared/binding/match.ts';
import { limitsByDefault } from '../recognise/recognise.ts';
import type { Replica } from '../replica/replica.ts';
import type { EnforceDeps } from './deps.ts';
import type { LiveDrift } from './live-drift.ts';

/** Bindings are compiled once per change of their section. */
export function recognitionOf(replica: Replica, liveDrift: LiveDrift): EnforceDeps['recognition'] {
  let index: BindingIndex | undefined;
  replica.onChange('bindings', () => {
    index = undefined;
  });
  return () => {
    index ??= compileBindings(replica.bindings);
    return {
      index,
      limits: limitsByDefault,
      toolHasOutputSchema: (tool) => liveDrift.hasOutputSchema(tool),
    };
  };
}
