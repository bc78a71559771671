import type { Clock } from '../../shared/base/clock.ts';
import type { VerificationKeys } from '../../shared/crypto/signing-key.ts';
import { sidecarAudience } from '../../shared/passport/audience.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import { leasePassport } from '../../shared/passport/lease-passport.ts';
import { readPassport } from '../../shared/passport/verify.ts';

interface Owner {
  readonly tenantId: string;
  readonly sidecarId: string;
}

/** The remaining uses and time of the held lease; zero if there is none. */
export interface LeaseLeft {
  readonly uses: number;
  readonly seconds: number;
}

interface Lease {
  claims: PassportClaims;
  next: number;
}

/**
 * The lease for calls without a passport of their own. Each use of a lease has a number, and each
 * number is used only once. A lease that existed before this process is never used, because an
 * earlier process may have used its numbers. A replaced lease is never used again.
 */
export class LeaseBook {
  readonly #owner: Owner;
  readonly #clock: Clock;
  /** Leases that must not be used (again), with their expiry in seconds. */
  readonly #closed = new Map<string, number>();
  #current: Lease | undefined;

  constructor(owner: Owner, clock: Clock) {
    this.#owner = owner;
    this.#clock = clock;
  }

  /**
   * Closes a lease that existed before this process. Returns the problem if the token is not a
   * valid lease.
   */
  found(token: string, keys: VerificationKeys): string | undefined {
    const claims = this.#read(token, keys);
    if (typeof claims === 'string') return claims;
    if (claims.jti !== this.#current?.claims.jti) this.#closed.set(claims.jti, claims.exp);
    return undefined;
  }

  /**
   * Switches to a lease that was received. Returns the problem if the token is not a valid lease.
   */
  received(token: string, keys: VerificationKeys): string | undefined {
    const claims = this.#read(token, keys);
    if (typeof claims === 'string') return claims;
    if (claims.jti === this.#current?.claims.jti) {
      // The same lease was signed again. Numbers that were already handed out remain used.
      this.#current.claims = claims;
      return undefined;
    }
    if (this.#closed.has(claims.jti)) return undefined;
    this.drop();
    this.#current = { claims, next: 0 };
    return undefined;
  }

  /** Closes the current lease permanently. */
  drop(): void {
    const { claims } = this.#current ?? {};
    if (claims !== undefined) this.#closed.set(claims.jti, claims.exp);
    this.#current = undefined;
    const nowSeconds = this.#clock.now() / 1000;
    // Kept for a day after expiry, so that a wall clock that is set back reopens no lease.
    for (const [jti, exp] of this.#closed) if (exp + 86_400 < nowSeconds) this.#closed.delete(jti);
  }

  /**
   * The next single-use passport; undefined if there is no lease, or if the lease has expired or
   * has no uses left.
   */
  next(): PassportClaims | undefined {
    if (!this.usable || this.#current === undefined) return undefined;
    return leasePassport(this.#current.claims, this.#current.next++);
  }

  get usable(): boolean {
    const { uses, seconds } = this.left;
    return uses > 0 && seconds > 0;
  }

  get left(): LeaseLeft {
    if (this.#current === undefined) return { uses: 0, seconds: 0 };
    const { claims, next } = this.#current;
    const seconds = Math.max(0, claims.exp - this.#clock.now() / 1000);
    return { uses: Math.max(0, (claims.lease_size ?? 0) - next), seconds };
  }

  #read(token: string, keys: VerificationKeys): PassportClaims | string {
    const reading = readPassport(token, keys);
    if (reading.form !== 'signed') return reading.detail;
    const { claims } = reading;
    if (claims.tenant_id !== this.#owner.tenantId) return 'it is another tenant’s';
    if (claims.aud !== sidecarAudience(this.#owner.sidecarId)) return 'it is another sidecar’s';
    return claims.lease_size === undefined ? 'it is no lease' : claims;
  }
}
