/// A target of an upstream. The gateway uses HTTP/1.1 for all targets.
public struct UpstreamTargetConfiguration: Sendable, Hashable, CustomStringConvertible {
    /// How the connection is protected.
    public enum Scheme: String, Sendable, Hashable {
        /// Plain text.
        case http
        /// TLS; the certificate is always verified.
        case https
    }

    /// The address to connect to.
    public enum Address: Sendable, Hashable {
        /// A host name or an IP address, and a port from 1 to 65535.
        case tcp(HostAndPort)
        /// The path of a Unix domain socket.
        case unixSocket(path: String)
    }

    /// How the connection is protected.
    public var scheme: Scheme
    /// The address to connect to.
    public var address: Address

    /// Creates a TCP target.
    public init(_ address: HostAndPort, scheme: Scheme = .http) {
        self.scheme = scheme
        self.address = .tcp(address)
    }

    /// Creates a plain-text target at a Unix domain socket.
    public init(unixSocket path: String) {
        scheme = .http
        address = .unixSocket(path: path)
    }

    /// `http://host:port`, `https://host:port` or `unix:/path`.
    public var description: String {
        switch address {
        case .tcp(let address): "\(scheme.rawValue)://\(address)"
        case .unixSocket(let path): "unix:\(path)"
        }
    }

    /// Host name, IP address or path: `server.address` of the OpenTelemetry conventions.
    public var serverAddress: String {
        switch address {
        case .tcp(let address): address.host
        case .unixSocket(let path): path
        }
    }

    /// `server.port` of the OpenTelemetry conventions; `nil` for a Unix domain socket.
    public var serverPort: Int? {
        if case .tcp(let address) = address { address.port } else { nil }
    }

    /// The `Host` value if the client's own is not forwarded (RFC 9110 §7.2); `localhost` for a Unix domain socket.
    public var hostField: String {
        guard case .tcp(let address) = address else { return "localhost" }
        let usualPort = scheme == .http ? 80 : 443
        if address.port != usualPort { return address.description }
        return address.host.contains(":") ? "[\(address.host)]" : address.host
    }
}

/// The TLS configuration for an upstream. Certificate verification cannot be disabled.
public struct UpstreamTLSConfiguration: Sendable, Equatable {
    /// The gateway's client certificate, with its key.
    public struct ClientCertificate: Sendable, Equatable {
        /// PEM file of the certificate chain, the gateway's certificate first.
        public var certificateFile: String
        /// PEM file of the private key, not encrypted.
        public var keyFile: String

        /// Creates a client certificate from its files.
        public init(certificateFile: String, keyFile: String) {
            self.certificateFile = certificateFile
            self.keyFile = keyFile
        }
    }

    /// PEM file of the trust roots; `nil` uses the system's trust roots.
    public var caFile: String?
    /// The client certificate that is presented on request; `nil` presents none.
    public var clientCertificate: ClientCertificate?
    /// The host name that is sent (SNI, RFC 6066 §3) and that the certificate must be issued for; `nil` uses the
    /// target's.
    public var serverName: String?

    /// Creates a TLS configuration.
    public init(caFile: String? = nil, clientCertificate: ClientCertificate? = nil, serverName: String? = nil) {
        self.caFile = caFile
        self.clientCertificate = clientCertificate
        self.serverName = serverName
    }
}
