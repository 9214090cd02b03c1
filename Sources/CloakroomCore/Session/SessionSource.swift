/// The identity source of a session: the upstream that issued its tokens. Tokens are sent to no other upstream.
///
/// A source is determined by a name alone, ``UpstreamConfiguration/sessionSource``, not by addresses: targets can be added,
/// moved and replaced while sessions continue. If a name is reassigned to another API, it needs another
/// `sessionSource`, which ends the existing sessions. An upstream that is renamed keeps its sessions if it keeps its
/// `sessionSource`.
///
/// Eight bytes, compared by value on the hot path and equal in every process and release, because stored records
/// contain it.
public struct SessionSource: Sendable, Hashable {
    /// A hash of the kind of source and its name; 0 only for ``unknown``.
    public let value: UInt64

    /// Creates a source from a stored value.
    public init(value: UInt64) {
        self.value = value
    }

    /// No known source. If a route or an endpoint has a source, a session without one does not match it.
    public static let unknown = SessionSource(value: 0)

    /// Creates the source of an upstream that signs users in with credentials.
    /// - Parameter name: ``UpstreamConfiguration/sessionSource``.
    public init(upstream name: String) {
        // The key is constant, because names are not secret. The kind is the first byte, so that sources of another
        // kind have other values.
        let hash = KeyedHash(key0: 0x636c_6f61_6b72_6f6f, key1: 0x6d20_736f_7572_6365).hash([1] + Array(name.utf8))
        value = hash == 0 ? 1 : hash
    }
}

extension GatewayConfiguration {
    /// The source of all sessions that are created under this configuration; `nil` if no upstream signs users in.
    public var sessionSource: SessionSource? {
        accounts.upstream.map { SessionSource(upstream: upstreams[$0].sessionSource) }
    }
}
