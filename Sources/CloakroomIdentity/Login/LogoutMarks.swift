import CloakroomCore

/// The marks by which a login detects that its provider ended the user's session while the login was in progress: a
/// logout token may arrive before the callback has created the session (OpenID Connect Back-Channel Logout §2.7).
///
/// The mark of a session at the provider is its `sid`. A `sub` is the same in all logins of a user, so its marks also
/// contain the time of the logout: a login that began later succeeds. A logout sets one mark for each unit of time, and
/// a login checks the few marks that cover its duration.
struct LogoutMarks: Sendable {
    /// The units of time in milliseconds: powers of 4, up to 17 min.
    private static let units: [Int64] = (0...10).map { 1 << (2 * $0) }
    /// The maximum duration that is checked: more than the longest login and the largest clock skew.
    private static let longest = Duration.seconds(3_600)

    let hashes: AccountHasher

    /// The latest time at which a session may have been created, or a login may have begun, that a logout of a subject
    /// ends: `iat`, which is rounded down to seconds, but not later than the token was received. Users may sign in again
    /// at once.
    /// - Parameter skew: How much the provider's clock may be behind: too many sessions end rather than too few.
    static func end(of logout: LogoutToken, receivedAt: Timestamp, skew: Duration) -> Timestamp {
        min(logout.issuedAt + .milliseconds(999) + skew, receivedAt)
    }

    /// The marks of a logout.
    func marks(_ logout: LogoutToken, receivedAt: Timestamp, skew: Duration) -> [MarkKey] {
        switch logout.target {
        case .session(let id, _): return marks(issuer: logout.issuer, session: id)
        case .subject(let subject):
            let time = max(Self.end(of: logout, receivedAt: receivedAt, skew: skew).milliseconds, 0)
            return Self.units.flatMap { unit in
                marks(issuer: logout.issuer, subject: subject, unit: unit, index: time / unit)
            }
        }
    }

    /// The marks that end a new session.
    /// - Parameters:
    ///   - start: When the login began.
    ///   - end: The latest time at which a logout may have been received, by the clock of any replica.
    func marks(ending session: SessionProvenance, from start: Timestamp, to end: Timestamp) -> [MarkKey] {
        let sid = session.providerSession.map { marks(issuer: session.issuer, session: $0) } ?? []
        let first = max(start, end - Self.longest)
        return sid
            + Self.cover(from: first.milliseconds, through: end.milliseconds).flatMap { part in
                marks(issuer: session.issuer, subject: session.subject, unit: part.unit, index: part.index)
            }
    }

    /// The fewest units that together contain exactly the given milliseconds.
    static func cover(from first: Int64, through last: Int64) -> [(unit: Int64, index: Int64)] {
        var parts: [(unit: Int64, index: Int64)] = []
        var next = max(first, 0)
        while next <= last, let unit = units.last(where: { next % $0 == 0 && $0 <= last - next + 1 }) {
            parts.append((unit, next / unit))
            next += unit
        }
        return parts
    }

    private func marks(issuer: String, session: String) -> [MarkKey] {
        hashes.marks(.endedAtProvider, of: [[0], Array(issuer.utf8), Array(session.utf8)])
    }

    private func marks(issuer: String, subject: String, unit: Int64, index: Int64) -> [MarkKey] {
        hashes.marks(
            .endedAtProvider,
            of: [
                [1], Array(issuer.utf8), Array(subject.utf8), UInt64(bitPattern: unit).bigEndianBytes,
                UInt64(bitPattern: index).bigEndianBytes,
            ])
    }
}
