/** Long runs that mix letters and digits are keys more often than words. */
const runForm = /[A-Za-z0-9+/_=-]{24,}/g;
const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

const secretForms: readonly RegExp[] = [
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g,
  /\b(?:apk|sk|pk|rk|gh[pousr]|github_pat|glpat|xox[abeoprs]|npm|hvs)[_-][A-Za-z0-9_-]{8,}/g,
  /\b(?:AKIA|ASIA)[0-9A-Z]{12,}/g,
  /\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*/g,
  /\b(?:bearer|basic)\s+[A-Za-z0-9+/._~=-]{6,}/gi,
  // What stands between the scheme and the host of an address.
  /(?<=:\/\/)[^\s/@]{1,200}@/g,
  /\b(?:password|passwd|secret|token|api[_-]?key)\s{0,3}[=:]\s{0,3}\S{1,200}/gi,
];
const emailForm = /[\p{L}\p{N}._%+'-]{1,64}@[\p{L}\p{N}.-]{1,253}\.\p{L}{2,24}/gu;
const ibanForm = /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b/g;
const digitsForm = /(?<![\d.])\d(?:[ -]?\d){11,18}(?!\d)/g;
const phoneForm = /(?<![\w.])(?:\+|00)\d(?:[ ()./-]{0,2}\d){6,14}/g;

/** A text without what looks like a secret, a card, an account, an e-mail address or a phone number. */
export function redactText(text: string): string {
  let plain = text;
  for (const form of secretForms) plain = plain.replaceAll(form, '[redacted:secret]');
  return plain
    .replaceAll(emailForm, '[redacted:email]')
    .replaceAll(ibanForm, '[redacted:account]')
    .replaceAll(digitsForm, (digits) => (isCard(digits) ? '[redacted:card]' : digits))
    .replaceAll(phoneForm, '[redacted:phone]')
    .replaceAll(runForm, (run) => (isKeyLike(run) ? '[redacted:secret]' : run));
}

function isKeyLike(run: string): boolean {
  return /\d/.test(run) && /[A-Za-z]/.test(run) && !uuidForm.test(run);
}

/** Whether digits are a card's by their check digit (Luhn). */
export function isCard(text: string): boolean {
  const digits = [...text].filter((character) => character >= '0' && character <= '9').map(Number);
  if (digits.length < 12 || digits.length > 19) return false;
  const sum = digits.toReversed().reduce((total, digit, index) => {
    const doubled = index % 2 === 0 ? digit : digit * 2;
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}
