/// The identity source of a session: which upstream issued its tokens. Tokens are sent to no other.
///
/// A source is determined by a name alone, ``UpstreamConfiguration/sessionSource``, and not by addresses: targets are added, moved
/// and replaced while sessions go on. A name that is to mean another API from now on needs another `sessionSource`, which
/// ends the sessions of the one before; an upstream that is only renamed keeps its sessions by keeping its
/// `sessionSource`.
///
/// Eight bytes, compared by value on the hot path, equal in every process and release: it stands in stored records.
public struct SessionSource: Sendable, Hashable {
    /// A hash of the kind of source and its name; 0 only for ``unknown``.
    public let value: UInt64

    /// Takes a value that was stored.
    public init(value: UInt64) {
        self.value = value
    }

    /// No source is known. Where a route or an endpoint has a source, a session without one does not match it.
    public static let unknown = SessionSource(value: 0)

    /// An upstream that signs people in with credentials.
    /// - Parameter name: ``UpstreamConfiguration/sessionSource``.
    public init(upstream name: String) {
        // The key is fixed, for names are no secret. The kind comes first, so that other kinds of sources share no value.
        let hash = KeyedHash(key0: 0x636c_6f61_6b72_6f6f, key1: 0x6d20_736f_7572_6365).hash([1] + Array(name.utf8))
        value = hash == 0 ? 1 : hash
    }
}

extension GatewayConfiguration {
    /// The source of all sessions that are made under this plan; `nil` where nobody signs in.
    public var sessionSource: SessionSource? {
        accounts.upstream.map { SessionSource(upstream: upstreams[$0].sessionSource) }
    }
}
