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
const mount = { name: volumes.trust, mountPath: paths.trust, readOnly: true };

/** The additions of `withTrust` to a container; the chart writes them into its policies. */
export const trustAdditions = {
  env: variables.map((name) => ({ name, value: bundle })),
  java: { name: javaVariable, value: javaOptions },
  mount,
} as const;

/**
 * Returns a container that trusts the sidecar's certificate authority: the bundle is mounted, and
 * the variables name it. Replaces the container's own values of these variables, because a bundle
 * without the sidecar's authority breaks every HTTPS call. Keeps options of Java.
 */
export function withTrust(container: Container): Container {
  return { ...container, env: environment(container), volumeMounts: mounts(container) };
}

function environment({ env = [] }: Container): NonNullable<Container['env']> {
  const java = env.filter(({ name }) => name === javaVariable).map(withJavaOptions);
  const kept = env.filter(({ name }) => !variables.includes(name) && name !== javaVariable);
  return [...trustAdditions.env, ...(java.length === 0 ? [trustAdditions.java] : java), ...kept];
}

/** A value from another source, such as a ConfigMap, cannot be extended, so it is kept. */
function withJavaOptions(given: NonNullable<Container['env']>[number]) {
  const { value = '', valueFrom } = given;
  if (valueFrom !== undefined || value.includes(javaOptions)) return given;
  return { name: javaVariable, value: value === '' ? javaOptions : `${value} ${javaOptions}` };
}

function mounts({ volumeMounts = [] }: Container): NonNullable<Container['volumeMounts']> {
  const kept = volumeMounts.filter(({ mountPath }) => mountPath !== paths.trust);
  return [...kept, mount];
}
