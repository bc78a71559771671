import {
  addingVariables,
  javaTrustOptions,
  replacingVariables,
  trustFiles,
} from '../../shared/agent/trust-variables.ts';
import { paths, volumes } from './names.ts';
import type { Container } from './pod.ts';

const bundle = `${paths.trust}/${trustFiles.pem}`;
const javaVariable = 'JAVA_TOOL_OPTIONS';
const javaOptions = javaTrustOptions(`${paths.trust}/${trustFiles.java}`);
const variables: readonly string[] = [...replacingVariables, ...addingVariables];

/**
 * A container that trusts the sidecar's certificate authority: the bundle is mounted, and the
 * variables name it. Values that the container had for these variables are replaced, because a
 * bundle without the sidecar's authority breaks every HTTPS call. Options of Java are kept.
 */
export function withTrust(container: Container): Container {
  return { ...container, env: environment(container), volumeMounts: mounts(container) };
}

function environment({ env = [] }: Container): NonNullable<Container['env']> {
  const java = env.find(({ name }) => name === javaVariable);
  const added = variables.map((name) => ({ name, value: bundle }));
  const kept = env.filter(({ name }) => !variables.includes(name) && name !== javaVariable);
  return [...added, javaEntry(java), ...kept];
}

/** A value that comes from elsewhere cannot be extended, so it is kept. */
function javaEntry(given: NonNullable<Container['env']>[number] | undefined) {
  if (given?.valueFrom !== undefined) return given;
  const options = given?.value ?? '';
  if (options.includes(javaOptions)) return given ?? { name: javaVariable, value: javaOptions };
  return { name: javaVariable, value: options === '' ? javaOptions : `${options} ${javaOptions}` };
}

function mounts({ volumeMounts = [] }: Container): NonNullable<Container['volumeMounts']> {
  const kept = volumeMounts.filter(({ mountPath }) => mountPath !== paths.trust);
  return [...kept, { name: volumes.trust, mountPath: paths.trust, readOnly: true }];
}
