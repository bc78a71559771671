// Only the ASN.1 part of node-forge, because the whole package loads every cipher.
declare module 'node-forge/lib/asn1.js' {
  import forge from 'node-forge';

  const asn1: typeof forge.asn1;
  export = asn1;
}
