import { allowed } from '../../injector/guard/allowed.ts';
import { comparison } from '../../injector/guard/sidecar-present.ts';
import { injectedContainers, injectedVolumes } from '../../injector/pod/containers.ts';
import { determinedSettings, type Injection } from '../../injector/pod/injection.ts';
import {
  annotations,
  containers,
  injectLabel,
  mirrorAnnotation,
  paths,
  reservedPrefix,
  volumes,
} from '../../injector/pod/names.ts';
import { annotationForms } from '../../injector/pod/options.ts';
import { trustAdditions } from '../../injector/pod/trust.ts';
import { admissionErrorKinds } from '../../shared/errors/admission-error-kinds.ts';

/** Numbers that the template replaces in the text of the file; they occur for nothing else. */
const marks = { uid: 900_000_001, transparentPort: 65_101, dnsPort: 65_102 } as const;

/** Text that begins with `cel:` is an expression of the policy. */
const injection: Injection = {
  ...marks,
  image: '@image',
  imagePullPolicy: '@pullPolicy' as Injection['imagePullPolicy'],
  audience: '@audience',
  controlPlaneUrl: '@controlPlaneUrl',
  redis: { url: '@redis' },
  holdTimeMs: 0,
  resources: { requests: {}, limits: {} },
  settings: {},
};

/**
 * `files/injection.json` of the chart: the injection and the rules of the guard, in the form that
 * the templates of the admission policies need. The webhook and the policies thus have one source.
 */
export function injectionFile(): unknown {
  const resources = {
    requests: { cel: 'variables.requests' },
    limits: { cel: 'variables.limits' },
  };
  const options = { holdTime: 'cel:variables.hold', resources };
  return {
    marks,
    containers: injectedContainers(injection, options),
    volumes: injectedVolumes(injection),
    trust: trustAdditions,
    names: {
      label: injectLabel,
      mirror: mirrorAnnotation,
      reservedPrefix,
      containers,
      volumes,
      trustPath: paths.trust,
    },
    annotations: Object.entries(annotations).map(([key, name]) => ({
      key,
      name,
      form: annotationForms[name]?.source,
    })),
    allowed,
    comparison,
    determinedSettings,
    texts: Object.fromEntries(
      Object.entries(admissionErrorKinds).map(([code, { text }]) => [code, text]),
    ),
  };
}
