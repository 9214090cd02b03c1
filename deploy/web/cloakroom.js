// A client for pages on the gateway's own origin, without dependencies. Copy this file into the sources of an application.
// The browser keeps a cookie that scripts cannot read; the gateway keeps the tokens and refreshes them.

/** An error of the gateway (RFC 9457): switch on `code`, and for `unauthorized` on `reason`. */
export class Problem extends Error {
  constructor(document, status, retryAfter = null) {
    super(document.detail);
    this.name = "Problem";
    this.status = status;
    this.code = document.code;
    this.reason = document.reason ?? null;
    /** The path to navigate to, of `step_up`. */
    this.login = document.login ?? null;
    this.requestID = document.request_id ?? null;
    /** Seconds to wait before the next attempt. */
    this.retryAfter = retryAfter;
  }

  /** The problem in a response of the gateway, or `null` for a response of the API. The body can still be read. */
  static async of(response) {
    if (!response.headers.get("Content-Type")?.startsWith("application/problem+json")) return null;
    const document = await response.clone().json().catch(() => null);
    if (typeof document?.code !== "string" || !String(document.type).startsWith("urn:cloakroom:")) return null;
    return new Problem(document, response.status, Number(response.headers.get("Retry-After")) || null);
  }

  /** Whether there is no session, or one that has to authenticate again. */
  get requiresSignIn() {
    return this.code === "step_up" || (this.code === "unauthorized" && this.reason !== "invalid_credentials");
  }
}

/** The session storage's key and the milliseconds within which a second 401 does not navigate again. */
const LEFT = "cloakroom-left";
const LOOP = 10_000;

export class Cloakroom {
  #accounts;
  #field;
  #usesPage;
  #identity;
  #onSignInRequired;
  /** The call of `onSignInRequired` in progress; requests that fail meanwhile do not call it again. */
  #asking = null;

  /**
   * - `accounts`: `accounts.prefix` of the configuration.
   * - `csrf`: `csrf.requireHeader` of the configuration, such as "X-CSRF=1".
   * - `page`: signs in at the gateway's page, with a password or at one of several providers.
   * - `identity`: the provider to sign in at, if there are several.
   * - `onSignInRequired(problem)`: called instead of navigating to the sign-in.
   */
  constructor({ accounts = "/auth", csrf = null, page = false, identity = null, onSignInRequired = null } = {}) {
    // A `base` element changes to what a path is relative.
    this.#accounts = new URL(accounts, location.origin).href;
    const sign = csrf?.indexOf("=") ?? -1;
    if (csrf !== null && sign < 1) throw new TypeError(`csrf must be name=value, not ${csrf}`);
    this.#field = csrf === null ? null : [csrf.slice(0, sign), csrf.slice(sign + 1)];
    this.#usesPage = page;
    this.#identity = identity;
    this.#onSignInRequired = onSignInRequired;
  }

  /** The user and the times of the session, or `null` without a session. Does not extend the session. */
  async session() {
    const response = await this.#send(this.#accounts, { headers: { Accept: "application/json" } });
    if (response.ok) return response.json();
    const problem = await Problem.of(response);
    if (problem?.requiresSignIn) return null;
    // A failure, such as an unavailable store, has not signed the user out.
    throw problem ?? unexpected(response);
  }

  /** Navigates to the sign-in, and back to `returnTo` afterwards: a path and query that a route serves. */
  signIn({ returnTo = location.pathname + location.search, identity = this.#identity, persistent = false } = {}) {
    const query = new URLSearchParams({ returnTo });
    if (identity !== null) query.set("identity", identity);
    if (persistent) query.set("persistent", "1");
    const endpoint = this.#usesPage && identity === null ? "page" : "login";
    location.assign(`${this.#accounts}/${endpoint}?${query}`);
  }

  /**
   * Signs out, also at the provider, and navigates: to the provider and `logout.returnTo`, or to `returnTo`. With
   * `everywhere`, the user's other sessions end first; if that fails, as it does without a session, the error is thrown.
   */
  async signOut({ everywhere = false, returnTo = "/" } = {}) {
    if (everywhere) await this.#delete("/sessions");
    const response = await this.#delete("");
    const next = response.status === 200 ? (await response.json()).next : null;
    location.assign(next ?? returnTo);
  }

  /** The user's sessions, the most recent first. */
  async sessions() {
    const response = await this.#send(`${this.#accounts}/sessions`, {});
    if (!response.ok) throw (await Problem.of(response)) ?? unexpected(response);
    return (await response.json()).sessions;
  }

  /** Ends one of `sessions()`. */
  async endSession(id) {
    await this.#delete(`/sessions/${encodeURIComponent(id)}`);
  }

  /**
   * The browser's `fetch`, with the field of `csrf`. A 401 of the gateway navigates to the sign-in, or calls
   * `onSignInRequired`; the response is returned in any case. Requests to other origins are sent unchanged.
   */
  fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input, document.baseURI);
    if (url.origin !== location.origin) return fetch(input, init);
    const response = await this.#send(input, init);
    const problem = response.status === 401 ? await Problem.of(response) : null;
    if (problem?.requiresSignIn) this.#requireSignIn(problem);
    return response;
  };

  #send(input, init) {
    const request = new Request(input, init);
    if (this.#field !== null) request.headers.set(...this.#field);
    return fetch(request);
  }

  /** Without a session there is nothing to end, but other sessions can only be ended with one. */
  async #delete(path) {
    const response = await this.#send(this.#accounts + path, { method: "DELETE" });
    if (response.ok) return response;
    const problem = await Problem.of(response);
    if (path !== "" || !problem?.requiresSignIn) throw problem ?? unexpected(response);
    return response;
  }

  #requireSignIn(problem) {
    if (this.#onSignInRequired !== null) {
      this.#asking ??= (async () => this.#onSignInRequired(problem))()
        .catch(reportError).finally(() => { this.#asking = null; });
      return;
    }
    // A browser that keeps no cookies, or whose new token the API rejects again, would navigate forever.
    if (!mark(Date.now())) return;
    const login = ownAddress(problem.login);
    if (login !== null) location.assign(login);
    else this.signIn();
  }
}

/** The address in full if it is one of the gateway, otherwise `null`: a page of another origin could be anyone's. */
function ownAddress(path) {
  try {
    const url = new URL(path, location.origin);
    return path !== null && url.origin === location.origin ? url.href : null;
  } catch {
    return null;
  }
}

/** Records the time of a navigation to the sign-in. Returns `false` shortly after the previous one. */
function mark(now) {
  try {
    if (Math.abs(now - Number(sessionStorage.getItem(LEFT))) < LOOP) return false;
    sessionStorage.setItem(LEFT, String(now));
  } catch {
    // Without storage there is no protection.
  }
  return true;
}

function unexpected(response) {
  const detail = `The gateway responded with ${response.status}.`;
  return new Problem({ code: "failed_request", detail }, response.status);
}
