/// One place where an upstream is reached. HTTP/1.1 is spoken to all of them.
public struct UpstreamTargetConfiguration: Sendable, Hashable, CustomStringConvertible {
    /// How the connection is protected.
    public enum Scheme: String, Sendable, Hashable {
        /// In the clear.
        case http
        /// TLS, with the certificate always verified.
        case https
    }

    /// What is connected to.
    public enum Address: Sendable, Hashable {
        /// A host name or an IP address, and a port from 1 to 65535.
        case tcp(HostAndPort)
        /// The path of a socket in the file system.
        case unixSocket(path: String)
    }

    /// How the connection is protected.
    public var scheme: Scheme
    /// What is connected to.
    public var address: Address

    /// Makes a target that is reached over TCP.
    public init(_ address: HostAndPort, scheme: Scheme = .http) {
        self.scheme = scheme
        self.address = .tcp(address)
    }

    /// Makes a target that is a socket of this machine, in the clear.
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

    /// `server.port` of the OpenTelemetry conventions; a socket of this machine has none.
    public var serverPort: Int? {
        if case .tcp(let address) = address { address.port } else { nil }
    }

    /// The value for `Host` where the client's own is not passed on (RFC 9110 §7.2). A socket is `localhost`.
    public var hostField: String {
        guard case .tcp(let address) = address else { return "localhost" }
        let usualPort = scheme == .http ? 80 : 443
        if address.port != usualPort { return address.description }
        return address.host.contains(":") ? "[\(address.host)]" : address.host
    }
}

/// What TLS with an upstream needs beyond the defaults. There is no switch that turns verification off.
public struct UpstreamTLSConfiguration: Sendable, Equatable {
    /// A certificate to show to the upstream, with its key.
    public struct ClientCertificate: Sendable, Equatable {
        /// PEM file of the certificate chain, the gateway's own first.
        public var certificateFile: String
        /// PEM file of the private key, not encrypted.
        public var keyFile: String

        /// Names the files.
        public init(certificateFile: String, keyFile: String) {
            self.certificateFile = certificateFile
            self.keyFile = keyFile
        }
    }

    /// PEM file of the certificates that are trusted; `nil` trusts those that the system does.
    public var caFile: String?
    /// What the gateway shows of itself, where it is asked; `nil` shows nothing.
    public var clientCertificate: ClientCertificate?
    /// The host name that is asked for (SNI, RFC 6066 §3) and that the certificate must be for; `nil` takes the target's.
    public var serverName: String?

    /// Makes a TLS plan.
    public init(caFile: String? = nil, clientCertificate: ClientCertificate? = nil, serverName: String? = nil) {
        self.caFile = caFile
        self.clientCertificate = clientCertificate
        self.serverName = serverName
    }
}
