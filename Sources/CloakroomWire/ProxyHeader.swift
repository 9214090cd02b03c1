public import NIOCore

/// The PROXY protocol header of a connection that a proxy forwards, versions 1 and 2, as defined by HAProxy's
/// proxy-protocol.txt. Section numbers in comments refer to that document.
public struct ProxyHeader: Sendable, Hashable {
    /// The client's address and port. `nil` if the addresses of the connection itself apply: a connection of the proxy
    /// itself (`LOCAL`), one with unknown addresses (`UNKNOWN`, `UNSPEC`), or one that is not TCP over IP.
    public var source: SocketAddress?

    /// Creates a header.
    public init(source: SocketAddress?) {
        self.source = source
    }
}

/// Why the first bytes of a connection are not a valid PROXY header.
public enum ProxyHeaderError: Error, Sendable, Hashable, CaseIterable {
    /// The signature is of neither version.
    case signature
    /// Version 1: a line that is too long, does not end in CR LF or has unexpected words (§2.1).
    case line
    /// Version 1: an address that is invalid or not of the stated family; an invalid port (§2.1).
    case address
    /// Version 2: an undefined version, command, family or protocol (§2.2).
    case version
    /// Version 2: too short for its addresses, or longer than the limit (§2.2).
    case length
}
