import CloakroomCore
import CloakroomSessions
import Testing

/// A kind of store that the contract suite is run against. A new store is one more line in ``all``.
struct StoreUnderTest: Sendable, CustomTestStringConvertible {
    let name: String
    /// Makes an empty store that nobody else uses.
    let make: @Sendable (SessionPlan) -> any SessionStore

    var testDescription: String { name }

    static let all = [
        StoreUnderTest(name: "memory") { plan in
            MemorySessionStore(plan, logKey: KeyedHash(key0: 1, key1: 2))
        }
    ]
}

/// Values that a session is made of, told apart by a number.
enum Sample {
    static let start = Timestamp(seconds: 1_700_000_000)
    static let plan = SessionPlan(idleTimeout: .seconds(900), absoluteTimeout: .seconds(3_600), maxSessions: 10_000)

    static func user(_ number: Int = 0) -> UserProfile {
        UserProfile(json: Array(#"{"id":\#(number)}"#.utf8), accountHash: UInt64(number))
    }

    static func tokens(_ number: Int = 0) -> SessionTokens {
        SessionTokens(authorization: Secret("Bearer access-\(number)"), refreshToken: Secret("refresh-\(number)"))
    }
}

extension SessionLookup {
    /// The session, if there is a live one.
    var session: Session? {
        if case .live(let session) = self { session } else { nil }
    }

    /// Why there is none, if that is the answer.
    var reason: UnauthorizedReason? {
        if case .none(let reason) = self { reason } else { nil }
    }
}

extension SessionStore {
    /// What a request would get: the local table, and where that cannot tell, the store itself.
    func look(_ ticket: SessionTicket, at now: Timestamp, slides: Bool = true) async throws -> SessionLookup {
        let lookup = find(ticket, now: now, slides: slides)
        guard case .unknown = lookup else { return lookup }
        return try await load(ticket, now: now)
    }
}
