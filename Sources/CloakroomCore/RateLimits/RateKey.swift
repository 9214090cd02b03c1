/// What a limit counts requests by, as hashes that only this process can compute: so no client can choose which keys
/// share a set of ``RateLimitTable``.
public struct RateKey: Sendable, Equatable {
    /// The hash of the subject.
    public var value: UInt64
    /// The hash of the /48 of an IPv6 address, which a client may have as a whole; 0 for none. It has 16 times the
    /// limit.
    public var block: UInt64 = 0

    private static let hash: KeyedHash = {
        var generator = SystemRandomNumberGenerator()
        return KeyedHash(using: &generator)
    }()

    /// Distinguishes subjects of different kinds with the same bytes.
    private enum Kind: UInt64 {
        case address4 = 1
        case address6, block6, session, account, claim, name
    }

    private static func hash(_ kind: Kind, _ word: UInt64) -> UInt64 { hash.hash(kind.rawValue, word) }

    private init(_ kind: Kind, _ bytes: some Sequence<UInt8>) {
        value = Self.hash(kind, Self.hash.hash(bytes))
    }

    /// A client address.
    public init(_ address: ClientAddressKey) {
        value = Self.hash(address.isVersion6 ? .address6 : .address4, address.prefix)
        if address.isVersion6 { block = Self.hash(.block6, address.prefix >> 16) }
    }

    /// The peer of a connection; also one whose address is not an IP address, such as that of a socket.
    public init(peer: String) {
        if let address = ClientAddressKey(peer) { self.init(address) } else { self.init(.name, peer.utf8) }
    }

    /// The name of a route or of a limit.
    public init(name: String) { self.init(.name, name.utf8) }

    /// A session.
    public init(session: SessionID) { value = Self.hash(.session, session.value) }

    /// The account of a session.
    public init(accountOf session: Session) { self.init(.account, session.accountBytes) }

    /// The value of a claim.
    /// - Returns: `nil` if it is neither a text nor a number nor a Boolean value.
    init?(claim: JSONValue?) {
        switch claim {
        case .string(let text)?: self.init(.claim, text.utf8)
        case .number(let number)?: self.init(.claim, number.bitPattern.bigEndianBytes + [0])
        case .bool(let flag)?: self.init(.claim, [flag ? 1 : 0, 0])
        case .null?, .array?, .object?, nil: return nil
        }
    }

    /// The key of this subject at a limit, of which only the name counts: so keys stay the same when limits are added.
    public func at(limit: RateKey) -> RateKey {
        RateKey(value: value ^ limit.value, block: block == 0 ? 0 : block ^ limit.value)
    }

    private init(value: UInt64, block: UInt64) {
        self.value = value
        self.block = block
    }
}

/// What the limits of a configuration read from the claims of a session. An object, because sessions keep the result for
/// it.
package final class ClaimLimits: Sendable {
    private let limits: [RateLimit]

    /// - Parameter limits: All limits of the configuration.
    package init(_ limits: [RateLimit]) { self.limits = limits }

    /// What a limit counts a session by.
    package enum Subject: Sendable, Equatable {
        /// The session is not counted.
        case notCounted
        /// Not by a claim.
        case other
        case claim(RateKey)
    }

    fileprivate func subject(of claims: SessionClaims?, at limit: RateLimit) -> Subject {
        var members: [JSONMemberName: JSONValue] = [:]
        if case .object(let values)? = claims?.values { members = values }
        guard limit.when.allSatisfy({ $0.isMet(by: members) }) else { return .notCounted }
        guard case .claim(let name) = limit.subject else { return .other }
        return RateKey(claim: members[JSONMemberName(name)]).map(Subject.claim) ?? .other
    }

    /// What the limit with this index counts a session by.
    /// - Parameter claims: `nil` for a session without claims, or no session.
    package func subject(of claims: SessionClaims?, at index: Int) -> Subject {
        guard let claims else { return subject(of: nil, at: limits[index]) }
        return claims.rateSubjects(for: self)[index]
    }

    /// For each limit.
    fileprivate func subjects(of claims: SessionClaims) -> [Subject] {
        limits.map { subject(of: claims, at: $0) }
    }
}

/// The subjects of one session at the limits of one configuration.
final class RateSubjects: Sendable {
    fileprivate let limits: ClaimLimits
    fileprivate let subjects: [ClaimLimits.Subject]
    /// The subjects at the limits of another configuration.
    fileprivate let next = ReferenceSetOnce<RateSubjects>()

    fileprivate init(_ limits: ClaimLimits, of claims: SessionClaims) {
        self.limits = limits
        subjects = limits.subjects(of: claims)
    }
}

extension SessionClaims {
    /// The subjects at the limits of a configuration. Determined once; the requests that follow find them with two
    /// loads.
    fileprivate func rateSubjects(for limits: ClaimLimits) -> [ClaimLimits.Subject] {
        var node = rateSubjects.load() ?? rateSubjects.storeIfNil(RateSubjects(limits, of: self))
        var count = 1
        while node.limits !== limits {
            guard count < Self.capacity else { return limits.subjects(of: self) }
            node = node.next.load() ?? node.next.storeIfNil(RateSubjects(limits, of: self))
            count += 1
        }
        return node.subjects
    }
}
