import Foundation
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

/// Sample parts of a session, distinguished by a number.
enum Sample {
    /// The current time in whole seconds, because servers use their own clocks.
    static let start = SessionTime(seconds: Int64(Date().timeIntervalSince1970))
    static let configuration = SessionConfiguration(
        idleTimeout: .seconds(900), absoluteTimeout: .seconds(3_600), maxSessions: 10_000, cacheSize: 1_000)
    static let accountHashes = AccountHasher(KeyedHash(key0: 1, key1: 2))
    static let secret = Secret("the gateway's secret, 32 bytes and more")
    static let olderSecret = Secret("the gateway's secret of the year before")
    static let secrets = SealingKeyring(secret)

    static func account(_ number: Int = 0) -> AccountName { AccountName(email: "user-\(number)@example.com") }

    static func user(_ number: Int = 0) -> UserProfile {
        UserProfile(json: Array(#"{"id":\#(number)}"#.utf8), account: account(number))
    }

    static func tokens(_ number: Int = 0, obtainedAt: SessionTime = start) -> TokenSet {
        TokenSet(
            authorization: Secret("Bearer access-\(number)"), refreshToken: Secret("refresh-\(number)"),
            accessTokenExpiresAt: obtainedAt.wallTime + .seconds(600), obtainedAt: obtainedAt.wallTime)
    }

    static let source = SessionSource(upstream: "api")
    static let client = SessionClientInfo(peer: "192.0.2.7", userAgent: .firefox)

    static func new(_ number: Int = 0) -> NewSession {
        NewSession(user: user(number), tokens: tokens(number), client: client, source: source)
    }
}

/// Sessions that were signed in to at a provider.
extension Sample {
    static let issuer = "https://id.example.com"

    static func provenance(
        _ number: Int = 0, identity: String = "company", issuer: String = Sample.issuer, sid: String? = "sid-1"
    ) -> SessionProvenance {
        SessionProvenance(
            identity: identity, issuer: issuer, subject: "Subject-\(number)", providerSession: sid,
            authenticatedAt: start.wallTime - .seconds(60), acr: "urn:example:mfa",
            nonceHash: (0..<32).map { UInt8($0) }, claims: Array(#"{"groups":["staff"]}"#.utf8),
            idToken: Secret("header.payload.signature"))
    }

    static func new(_ provenance: SessionProvenance, endsBy: WallTime? = nil) -> NewSession {
        NewSession(
            user: UserProfile(json: Array(#"{"sub":"1"}"#.utf8), account: provenance.account), tokens: tokens(),
            client: client, source: SessionSource(identity: provenance.identity, issuer: provenance.issuer),
            provenance: provenance, endsBy: endsBy)
    }
}

extension SessionLookup {
    /// The session, if there is an active one.
    var session: Session? {
        if case .active(let session) = self { session } else { nil }
    }

    /// The reason, if there is no session.
    var reason: UnauthorizedReason? {
        if case .missing(let reason) = self { reason } else { nil }
    }
}

extension RecordLookup {
    /// The record, if there is one.
    var record: SessionRecord? {
        if case .record(let record) = self { record } else { nil }
    }
}

extension SaveResult {
    /// The session, if it was saved.
    var session: Session? {
        if case .saved(let session) = self { session } else { nil }
    }

    var isFenced: Bool { if case .staleLease = self { true } else { false } }
    var isChanged: Bool { if case .versionConflict = self { true } else { false } }
    var isNotFound: Bool { if case .notFound = self { true } else { false } }
}

extension LeaseResult {
    /// The lease, if it was acquired.
    var lease: RefreshLease? {
        if case .acquired(let lease) = self { lease } else { nil }
    }
}

extension SessionStore {
    /// The result for a request: from the cache, or from the store if the session is not cached.
    func lookup(_ ticket: SessionTicket, at now: SessionTime, slides: Bool = true) async throws -> SessionLookup {
        let lookup = lookup(ticket, now: now, slides: slides)
        guard case .notCached = lookup else { return lookup }
        return try await load(ticket, now: now)
    }
}

extension SessionStore {
    /// Ends a session by its identifier.
    /// - Returns: Whether there was one.
    func end(
        _ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        try await take(id, of: account, reason: reason, now: now) != nil
    }

    /// Ends the sessions of an account.
    func endAll(
        of account: AccountName, but kept: SessionID?, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [SessionID] {
        try await takeAll(.account(account, but: kept), reason: reason, now: now).map(\.id)
    }
}
