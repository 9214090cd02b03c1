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
        case address6, block6, peer, route, session, account, claim, limit
    }

    private init(_ kind: Kind, _ word: UInt64) { value = Self.hash.hash(kind.rawValue, word) }

    private init(_ kind: Kind, _ bytes: some Sequence<UInt8>) { self.init(kind, Self.hash.hash(bytes)) }

    /// A client address.
    public init(_ address: ClientAddressKey) {
        self.init(address.isVersion6 ? .address6 : .address4, address.prefix)
        if address.isVersion6 { block = RateKey(.block6, address.prefix >> 16).value }
    }

    /// The peer of a connection; also one whose address is not an IP address, such as that of a socket.
    public init(peer: String) {
        if let address = ClientAddressKey(peer) { self.init(address) } else { self.init(.peer, peer.utf8) }
    }

    /// The name of a route.
    public init(route name: String) { self.init(.route, name.utf8) }

    /// A limit: its name and rate, not its position. So keys stay the same when limits are added, and a limit that
    /// changes begins anew: what was used of the old one could be hours at the new rate.
    public init(_ limit: RateLimit) { self.init(.limit, "\(limit.name) \(limit.requests) \(limit.burst)".utf8) }

    /// What a limit counts the requests of a session by.
    /// - Returns: `nil` if not by the session, or if it has no such claim: a text or a Boolean value. Numbers are none,
    ///   because different ones may be equal once they are parsed.
    public init?(_ session: Session, at limit: RateLimit) {
        switch limit.subject {
        case .session: self.init(.session, session.id.value)
        case .account: self.init(.account, session.accountBytes)
        case .claim(let name):
            guard case .object(let members)? = session.claims?.values, let provenance = session.provenance else {
                return nil
            }
            let issuer = Self.hash.hash(provenance.issuer.utf8)
            switch members[JSONMemberName(name)] {
            case .string(let text)?: self.init(.claim, Self.hash.hash(issuer, Self.hash.hash(text.utf8)))
            case .bool(let flag)?: self.init(.claim, Self.hash.hash(issuer, flag ? 1 : 0))
            default: return nil
            }
        case .address, .route: return nil
        }
    }

    /// The key of this subject at a limit.
    public func at(_ limit: RateKey) -> RateKey {
        var key = self
        key.value ^= limit.value
        if block != 0 { key.block ^= limit.value }
        return key
    }
}
