/// What a TLS listener needs. TLS 1.2 and 1.3.
public struct ListenerTLSConfiguration: Sendable, Equatable {
    /// What clients get that name no host, or one that no certificate is made out to.
    public var certificate: CertificateConfiguration
    /// Further ones, chosen by the host that a client names (SNI, RFC 6066 §3).
    public var additionalCertificates: [CertificateConfiguration]
    /// The lowest version spoken.
    public var minimumVersion: TLSVersion
    /// What TLS 1.2 may be encrypted with; the client's order of preference decides.
    public var cipherSuites: [TLSCipherSuite]
    /// Whether clients show certificates; `nil` asks for none.
    public var clientCertificates: ClientCertificateConfiguration?

    /// Makes a TLS plan.
    public init(
        certificateFile: String, keyFile: String, additionalCertificates: [CertificateConfiguration] = [],
        minimumVersion: TLSVersion = .tls12, cipherSuites: [TLSCipherSuite] = TLSCipherSuite.allCases,
        clientCertificates: ClientCertificateConfiguration? = nil
    ) {
        certificate = CertificateConfiguration(certificateFile: certificateFile, keyFile: keyFile)
        self.additionalCertificates = additionalCertificates
        self.minimumVersion = minimumVersion
        self.cipherSuites = cipherSuites
        self.clientCertificates = clientCertificates
    }
}

/// A certificate and its key.
public struct CertificateConfiguration: Sendable, Equatable {
    /// PEM file of the certificate chain, the server's own first.
    public var certificateFile: String
    /// PEM file of the private key.
    public var keyFile: String

    /// Makes a pair.
    public init(certificateFile: String, keyFile: String) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
    }
}

/// How clients show who they are in the handshake (mTLS).
public struct ClientCertificateConfiguration: Sendable, Equatable {
    /// Whether a client may do without.
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        /// No certificate, no connection.
        case required
        /// A client without a certificate is served; one that shows a certificate must show a good one.
        case optional
    }

    /// PEM file of the authorities that clients' certificates must come from.
    public var caFile: String
    /// Whether a client may do without.
    public var mode: Mode

    /// Makes a plan for clients' certificates.
    public init(caFile: String, mode: Mode = .required) {
        self.caFile = caFile
        self.mode = mode
    }
}

/// A version of TLS that the gateway speaks.
public enum TLSVersion: String, Sendable, Hashable, CaseIterable {
    /// TLS 1.2 (RFC 5246).
    case tls12 = "1.2"
    /// TLS 1.3 (RFC 8446).
    case tls13 = "1.3"
}

/// A cipher suite of TLS 1.2, by its registered name. Only those with forward secrecy and authenticated encryption:
/// HTTP/2 forbids the others (RFC 9113 §9.2.2). Those of TLS 1.3 are all good and cannot be chosen.
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
