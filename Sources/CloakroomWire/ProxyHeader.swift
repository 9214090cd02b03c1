public import NIOCore

/// What a proxy in front tells of the connection that it forwards: the PROXY protocol, versions 1 and 2, as HAProxy's
/// proxy-protocol.txt defines it. Section numbers beside the code are that document's.
public struct ProxyHeader: Sendable, Hashable {
    /// The client's address and port. `nil` where the connection's own stand: a connection of the proxy itself (`LOCAL`),
    /// one of which it knows nothing (`UNKNOWN`, `UNSPEC`), or one that is not TCP over IP.
    public var source: SocketAddress?

    /// Makes a header.
    public init(source: SocketAddress?) {
        self.source = source
    }
}

/// Why what came first is no PROXY header.
public enum ProxyHeaderError: Error, Sendable, Hashable, CaseIterable {
    /// The first bytes are those of neither version.
    case signature
    /// Version 1: a line that is too long, does not end in CR LF or has other words than it should (§2.1).
    case line
    /// Version 1: an address that is none, or not of the family it is said to be of; a port that is none (§2.1).
    case address
    /// Version 2: another version, command, family or protocol than there are (§2.2).
    case version
    /// Version 2: too short for its addresses, or longer than anybody needs (§2.2).
    case length
}
