import type forge from 'node-forge';
import asn1 from 'node-forge/lib/asn1.js';

/** A node of an ASN.1 structure. Strings hold one byte per character (Latin-1). */
export type Node = forge.asn1.Asn1;

export function universal(type: forge.asn1.Type, value: string | Node[]): Node {
  return asn1.create(asn1.Class.UNIVERSAL, type, Array.isArray(value), value);
}

export const sequence = (...parts: Node[]) => universal(asn1.Type.SEQUENCE, parts);
export const octets = (bytes: string) => universal(asn1.Type.OCTETSTRING, bytes);
export const bitString = (bytes: string) => universal(asn1.Type.BITSTRING, bytes);
export const boolean = (value: boolean) => universal(asn1.Type.BOOLEAN, value ? '\xff' : '\0');
export const integer = (value: number) => universal(asn1.Type.INTEGER, String.fromCharCode(value));
export const oid = (value: string) => universal(asn1.Type.OID, asn1.oidToDer(value).getBytes());
export const der = (node: Node) => asn1.toDer(node).getBytes();

export function context(tag: number, parts: Node[]): Node {
  return asn1.create(asn1.Class.CONTEXT_SPECIFIC, tag, true, parts);
}

export function primitiveContext(tag: number, bytes: string): Node {
  return asn1.create(asn1.Class.CONTEXT_SPECIFIC, tag, false, bytes);
}

export function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}
