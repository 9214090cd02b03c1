/// An address that clients connect to.
public struct ListenerConfiguration: Sendable, Equatable {
    /// The address to listen on.
    public var address: HostAndPort
    /// Certificate and key; `nil` is plain text.
    public var tls: ListenerTLSConfiguration?
    /// Whether HTTP/2 is supported: by ALPN over TLS, with prior knowledge without TLS (RFC 9113 §3).
    public var http2: Bool
    /// Source addresses whose connections must begin with a PROXY header; `nil` disables the PROXY protocol.
    public var proxyProtocolSources: [CIDRBlock]?

    /// Creates a listener.
    /// - Parameter http2: By default HTTP/2 is enabled if TLS is.
    public init(
        address: HostAndPort, tls: ListenerTLSConfiguration? = nil, http2: Bool? = nil,
        proxyProtocolSources: [CIDRBlock]? = nil
    ) {
        self.address = address
        self.tls = tls
        self.http2 = http2 ?? (tls != nil)
        self.proxyProtocolSources = proxyProtocolSources
    }
}
