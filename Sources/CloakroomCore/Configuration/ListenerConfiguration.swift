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
    /// The port of `https` URLs that all requests are redirected to, 1...65,535; `nil` serves requests. Without TLS only.
    public var redirectToHTTPS: Int?
    /// Whether only requests for hosts of this machine are served; see ``HostNames/isLocal(_:)``. Without TLS only.
    public var isForDevelopment = false
    /// Whether a proxy in front terminates TLS, so that clients use https.
    public var isBehindTLSProxy = false
    /// The proxy that the listener only decides for; `nil` serves requests.
    public var forwardAuth: ForwardAuthConfiguration?
    /// The hosts that the listener serves, folded; see ``HostNames``. Empty serves those that no other listener lists.
    public var hosts: [String] = []

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

/// Forward authorization: another proxy forwards the requests, and asks whether it may.
public struct ForwardAuthConfiguration: Sendable, Equatable {
    /// The proxy, which decides where the original request is read.
    public enum Proxy: String, Sendable, CaseIterable {
        case nginx, traefik, caddy, envoy
    }

    /// The proxy that asks.
    public var proxy: Proxy
    /// Its addresses. Connections of others are closed.
    public var sources: [CIDRBlock]
    /// The hosts that it asks for, folded; see ``HostNames``.
    public var hosts: [String]

    package init(proxy: Proxy, sources: [CIDRBlock], hosts: [String]) {
        (self.proxy, self.sources, self.hosts) = (proxy, sources, hosts)
    }
}

/// The TLS configuration of a listener: TLS 1.2 and 1.3.
public struct ListenerTLSConfiguration: Sendable, Equatable {
    /// The certificate for clients that send no host name, or one that no certificate was issued for.
    public var certificate: CertificateConfiguration
    /// Further certificates, selected by the host name that a client sends (SNI, RFC 6066 §3).
    public var additionalCertificates: [CertificateConfiguration]
    /// The minimum TLS version.
    public var minimumVersion: TLSVersion
    /// Whether client certificates are requested; `nil` requests none.
    public var clientCertificates: ClientCertificateConfiguration?

    package init(
        certificateFile: String, keyFile: String, additionalCertificates: [CertificateConfiguration] = [],
        minimumVersion: TLSVersion = .tls12, clientCertificates: ClientCertificateConfiguration? = nil
    ) {
        certificate = CertificateConfiguration(certificateFile: certificateFile, keyFile: keyFile)
        self.additionalCertificates = additionalCertificates
        self.minimumVersion = minimumVersion
        self.clientCertificates = clientCertificates
    }
}

/// A certificate and its key.
public struct CertificateConfiguration: Sendable, Equatable {
    /// PEM file of the certificate chain, the gateway's certificate first.
    public var certificateFile: String
    /// PEM file of the private key, not encrypted.
    public var keyFile: String

    package init(certificateFile: String, keyFile: String) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
    }
}

/// Authentication of clients by certificates (mTLS).
public struct ClientCertificateConfiguration: Sendable, Equatable {
    /// Whether a client must present a certificate.
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        /// Connections without a client certificate are rejected.
        case required
        /// Clients without a certificate are accepted; a certificate that is presented must be valid.
        case optional
    }

    /// PEM file of the authorities that issue client certificates.
    public var caFile: String
    /// Whether a client must present a certificate.
    public var mode: Mode

    package init(caFile: String, mode: Mode = .required) {
        self.caFile = caFile
        self.mode = mode
    }
}

/// A TLS version that the gateway supports.
public enum TLSVersion: String, Sendable, Hashable, CaseIterable {
    /// TLS 1.2 (RFC 5246).
    case tls12 = "1.2"
    /// TLS 1.3 (RFC 8446).
    case tls13 = "1.3"
}

/// A cipher suite of TLS 1.2, by its registered name. Only suites with forward secrecy and authenticated encryption:
/// HTTP/2 forbids the others (RFC 9113 §9.2.2). All suites of TLS 1.3 meet this and cannot be configured.
public enum TLSCipherSuite: String, Sendable, Hashable, CaseIterable {
    /// RFC 5289.
    case ecdheECDSAWithAES128GCM = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    /// RFC 5289.
    case ecdheRSAWithAES128GCM = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    /// RFC 5289.
    case ecdheECDSAWithAES256GCM = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    /// RFC 5289.
    case ecdheRSAWithAES256GCM = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    /// RFC 7905.
    case ecdheECDSAWithChaCha20 = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    /// RFC 7905.
    case ecdheRSAWithChaCha20 = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
}
