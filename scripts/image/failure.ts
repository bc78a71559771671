/** A failure whose message is for the person who builds. */
export class Failure extends Error {}
