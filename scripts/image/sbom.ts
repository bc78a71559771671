import { createHash } from 'node:crypto';
import type { BundledPackage } from '../bundle/bundle.ts';
import type { Architecture, DebianPackage } from './debian.ts';
import { release } from './debian.ts';

interface Contents {
  readonly version: string;
  readonly architecture: Architecture;
  readonly nodeVersion: string;
  readonly npm: readonly BundledPackage[];
  readonly debian: readonly DebianPackage[];
}

/**
 * The software bill of materials, CycloneDX 1.6: packages whose code is in the image. `npm sbom`
 * lists all dependencies instead, and has a random serial number and the time of the build.
 */
export function billOfMaterials({
  version,
  architecture,
  nodeVersion,
  npm,
  debian,
}: Contents): object {
  const components = [
    {
      type: 'platform',
      name: 'node',
      version: nodeVersion,
      purl: `pkg:generic/node@${nodeVersion}?arch=${architecture}`,
      licenses: [{ license: { id: 'MIT' } }],
      cpe: `cpe:2.3:a:nodejs:node.js:${nodeVersion}:*:*:*:*:*:*:*`,
    },
    ...npm.map(({ name, version, license }) => ({
      type: 'library',
      name,
      version,
      purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
      licenses: [{ expression: license }],
    })),
    ...debian.map((found) => ({
      type: 'library',
      name: found.name,
      version: found.version,
      purl: `pkg:deb/debian/${encodeURIComponent(found.name)}@${encodeURIComponent(found.version)}?arch=${found.architecture}&distro=debian-${release}`,
      hashes: [{ alg: 'SHA-256', content: found.sha256 }],
    })),
  ].map((component) => ({ 'bom-ref': component.purl, ...component }));
  const digest = createHash('sha256').update(JSON.stringify(components)).digest('hex');
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    // Derived from the contents, so that equal images have equal lists.
    serialNumber: `urn:uuid:${uuidFrom(digest)}`,
    version: 1,
    metadata: {
      component: {
        'bom-ref': `sallyport@${version}`,
        type: 'container',
        name: 'sallyport',
        version,
        licenses: [{ license: { id: 'Apache-2.0' } }],
      },
    },
    components,
    dependencies: [{ ref: `sallyport@${version}`, dependsOn: components.map(({ purl }) => purl) }],
  };
}

/** A UUID of version 8 (RFC 9562) from a hash in hex. */
function uuidFrom(hex: string): string {
  const [a, b, c, d, e] = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(13, 16),
    hex.slice(17, 20),
    hex.slice(20, 32),
  ];
  return `${a}-${b}-8${c}-8${d}-${e}`;
}
