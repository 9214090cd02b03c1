/// One address that clients connect to.
public struct ListenerPlan: Sendable, Equatable {
    /// Where it listens.
    public var address: HostAndPort
    /// Certificate and key; `nil` is clear text.
    public var tls: TLSPlan?

    /// Makes a listener.
    public init(address: HostAndPort, tls: TLSPlan? = nil) {
        self.address = address
        self.tls = tls
    }
}

/// What a TLS listener needs. TLS 1.2 and 1.3.
public struct TLSPlan: Sendable, Equatable {
    /// PEM file of the certificate chain, the server's own first.
    public var certificateFile: String
    /// PEM file of the private key.
    public var keyFile: String
    /// The lowest version spoken.
    public var minimumVersion: TLSVersion

    /// Makes a TLS plan.
    public init(certificateFile: String, keyFile: String, minimumVersion: TLSVersion = .tls12) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        self.minimumVersion = minimumVersion
    }
}

/// A version of TLS that the gateway speaks.
public enum TLSVersion: String, Sendable, Hashable, CaseIterable {
    /// TLS 1.2 (RFC 5246).
    case tls12 = "1.2"
    /// TLS 1.3 (RFC 8446).
    case tls13 = "1.3"
}
