/// What a limit counts requests by, as hashes under a secret key: so no client can choose which keys share a set of
/// ``RateLimitTable``. Gateways that share limits have the same key.
public struct RateKey: Sendable, Equatable {
    /// The hash of the subject.
    public var value: UInt64
    /// The hash of the /48 of an IPv6 address, which a client may have as a whole; 0 for none. It has ``blockFactor``
    /// times the limit.
    public var block: UInt64 = 0

    /// How many times the limit of an IPv6 address its /48 has, wherever both are counted.
    package static let blockFactor: UInt64 = 16

    /// The hash of a process that shares no limits.
    public static let processHash: KeyedHash = {
        var generator = SystemRandomNumberGenerator()
        return KeyedHash(using: &generator)
    }()

    /// Distinguishes subjects of different kinds with the same bytes.
    private enum Kind: UInt64 {
        case address4 = 1
        case address6, block6, peer, route, session, account, claim, limit
    }

    /// A key without a block whose hash is known.
    package init(value: UInt64) { self.value = value }

    private init(_ kind: Kind, _ word: UInt64, _ hash: KeyedHash) { value = hash.hash(kind.rawValue, word) }

    private init(_ kind: Kind, _ bytes: some Sequence<UInt8>, _ hash: KeyedHash) {
        self.init(kind, hash.hash(bytes), hash)
    }

    /// A client address.
    /// - Parameter hash: ``RateLimitStorage/hash``, as in all initializers.
    public init(_ address: ClientAddressKey, hash: KeyedHash = processHash) {
        self.init(address.isVersion6 ? .address6 : .address4, address.prefix, hash)
        if address.isVersion6 { block = RateKey(.block6, address.prefix >> 16, hash).value }
    }

    /// The peer of a connection; also one whose address is not an IP address, such as that of a socket.
    public init(peer: String, hash: KeyedHash = processHash) {
        if let address = ClientAddressKey(peer) {
            self.init(address, hash: hash)
        } else {
            self.init(.peer, peer.utf8, hash)
        }
    }

    /// The name of a route.
    public init(route name: String, hash: KeyedHash = processHash) { self.init(.route, name.utf8, hash) }

    /// A limit: its name and rate, not its position. So keys stay the same when limits are added, and a limit that
    /// changes begins anew: what was used of the old one could be hours at the new rate.
    public init(_ limit: RateLimit, hash: KeyedHash = processHash) {
        self.init(.limit, "\(limit.name) \(limit.requests) \(limit.burst)".utf8, hash)
    }

    /// What a limit counts the requests of a session by.
    /// - Returns: `nil` if not by the session, or if it has no such claim: a text or a Boolean value. Numbers are none,
    ///   because different ones may be equal once they are parsed.
    public init?(_ session: Session, at limit: RateLimit, hash: KeyedHash = processHash) {
        switch limit.subject {
        case .session: self.init(.session, session.id.value, hash)
        case .account: self.init(.account, session.accountBytes, hash)
        case .claim(let name):
            guard let claims = session.claims?.values, let provenance = session.provenance else { return nil }
            let issuer = hash.hash(provenance.issuer.utf8)
            switch claims[claim: name] {
            case .string(let text)?: self.init(.claim, hash.hash(issuer, hash.hash(text.utf8)), hash)
            case .bool(let flag)?: self.init(.claim, hash.hash(issuer, flag ? 1 : 0), hash)
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
