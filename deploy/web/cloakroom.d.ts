/** An error of the gateway (RFC 9457). */
export declare class Problem extends Error {
  /** For the tests of an app: the members of a problem document, and the status. */
  constructor(
    document: { code: string; detail?: string; reason?: string; login?: string; request_id?: string },
    status: number,
    retryAfter?: number | null,
  );
  readonly status: number;
  /** Such as `unauthorized`, `step_up`, `missing_claim`, `rate_limited`, `store_unavailable`. */
  readonly code: string;
  /** Of `unauthorized`: `no_session`, `expired_idle`, `expired_absolute`, `revoked`, `refresh_rejected`, … */
  readonly reason: string | null;
  /** The path to navigate to, of `step_up`. */
  readonly login: string | null;
  /** Finds the request in the log of the gateway. */
  readonly requestID: string | null;
  /** Seconds to wait before the next attempt. */
  readonly retryAfter: number | null;
  readonly requiresSignIn: boolean;
  /** The problem in a response of the gateway, or `null` for a response of the API. */
  static of(response: Response): Promise<Problem | null>;
}

/** The response of `GET /auth`. `User` is the document of the API, or the kept claims of a provider. */
export interface SignedIn<User> {
  user: User;
  session: { createdAt: string; expiresAt: string; idleTimeoutSeconds: number };
}

/** One of the user's sessions. */
export interface SessionSummary {
  id: string;
  createdAt: string;
  lastUsedAt: string;
  expiresAt: string;
  address: string;
  userAgent: string;
  current: boolean;
}

export interface Options {
  /** `accounts.prefix` of the configuration. Default: `/auth`. */
  accounts?: string;
  /** `csrf.requireHeader` of the configuration, such as `X-CSRF=1`. */
  csrf?: string | null;
  /** Signs in at the gateway's page, with a password or at one of several providers. */
  page?: boolean;
  /** The provider to sign in at, if there are several. */
  identity?: string | null;
  /** Called instead of navigating to the sign-in, and not again before its promise is settled. */
  onSignInRequired?: ((problem: Problem) => void | Promise<void>) | null;
}

export declare class Cloakroom {
  constructor(options?: Options);
  /** The user and the times of the session, or `null` without a session. Throws a `Problem`. */
  session<User = Record<string, unknown>>(): Promise<SignedIn<User> | null>;
  /** Navigates to the sign-in, and back to `returnTo` afterwards. */
  signIn(options?: { returnTo?: string; identity?: string | null; persistent?: boolean }): void;
  /** Signs out, also at the provider, and navigates. Throws a `Problem` if sessions that should end did not. */
  signOut(options?: { everywhere?: boolean; returnTo?: string }): Promise<void>;
  /** The user's sessions, the most recent first. */
  sessions(): Promise<SessionSummary[]>;
  /** Ends one of `sessions()`. */
  endSession(id: string): Promise<void>;
  /** The browser's `fetch`, with the CSRF field and the handling of 401. */
  readonly fetch: typeof fetch;
}
