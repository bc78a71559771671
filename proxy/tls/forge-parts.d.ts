// The ASN.1 part of node-forge alone; the whole brings every cipher along.
declare module 'node-forge/lib/asn1.js' {
  import forge from 'node-forge';

  const asn1: typeof forge.asn1;
  export = asn1;
}
