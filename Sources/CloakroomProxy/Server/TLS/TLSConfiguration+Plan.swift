import CloakroomCore
import CloakroomTLS
import NIOSSL

extension TLSConfiguration {
    /// Creates a listener's TLS configuration, except for the selection of a certificate. Renegotiation is disabled
    /// (the default), TLS session tickets are enabled with keys that BoringSSL generates and rotates, OCSP stapling is
    /// not supported.
    /// - Parameter section: Key of the configuration section; see ``ConfigFinding``.
    /// - Throws: ``ListenerError`` which names the file.
    init(
        _ configuration: ListenerTLSConfiguration, _ certificate: ServerCertificate, allowsHTTP2: Bool,
        at section: [String]
    ) throws {
        self = .makeServerConfiguration(certificateChain: certificate.chain, privateKey: certificate.key)
        minimumTLSVersion = configuration.minimumVersion == .tls13 ? .tlsv13 : .tlsv12
        cipherSuiteValues = configuration.cipherSuites.map(\.cipher)
        // RFC 7301 §3.2 requires rejecting clients that offer only other protocols (no_application_protocol). BoringSSL
        // continues without ALPN instead and does not report the offer, so such clients are served HTTP/1.1, like
        // clients without ALPN. A cross-protocol request (ALPACA) would still have to be valid HTTP with a `Host` of
        // the gateway.
        applicationProtocols = allowsHTTP2 ? ["h2", "http/1.1"] : ["http/1.1"]
        if let clients = configuration.clientCertificates { try requireClientCertificates(clients, at: section) }
    }

    private mutating func requireClientCertificates(_ clients: ClientCertificateConfiguration, at section: [String])
        throws
    {
        do {
            trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(clients.caFile))
        } catch {
            throw ListenerError(
                ConfigFinding(
                    key: section + ["clientCertificates", "caFile"],
                    message: "\(clients.caFile): cannot read a certificate authority",
                    suggestion: "use a PEM file"))
        }
        // Chain, validity period and purpose are checked in both modes; a client has no host name to verify.
        certificateVerification =
            switch clients.mode {
            case .required: .noHostnameVerification
            case .optional: .optionalVerification
            }
        // Lets a client with several certificates select a matching one.
        sendCANameList = true
    }
}
