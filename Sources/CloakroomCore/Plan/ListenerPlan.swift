/// One address that clients connect to.
public struct ListenerConfiguration: Sendable, Equatable {
    /// Where it listens.
    public var address: HostAndPort
    /// Certificate and key; `nil` is clear text.
    public var tls: ListenerTLSConfiguration?
    /// Whether HTTP/2 is spoken: by ALPN over TLS, with prior knowledge in clear (RFC 9113 §3).
    public var http2: Bool
    /// Where connections come from that begin with a PROXY header, which every one of them has to. `nil`: none does.
    public var proxyProtocolSources: [CIDRBlock]?

    /// Makes a listener.
    /// - Parameter http2: By default HTTP/2 is spoken where there is TLS.
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
