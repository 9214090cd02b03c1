import CloakroomCore
import CloakroomTLS
import NIOSSL

extension TLSConfiguration {
    /// How a listener shakes hands, but for the choice among certificates. Renegotiation is refused, as it is by
    /// default; session tickets are on, with keys that BoringSSL makes and rotates; there is no OCSP stapling.
    /// - Parameter section: The key of the section that the plan was read from; see ``ConfigFinding``.
    /// - Throws: ``ListenerError`` which names the file.
    init(
        _ configuration: ListenerTLSConfiguration, _ certificate: ServerCertificate, allowsHTTP2: Bool,
        at section: [String]
    ) throws {
        self = .makeServerConfiguration(certificateChain: certificate.chain, privateKey: certificate.key)
        minimumTLSVersion = configuration.minimumVersion == .tls13 ? .tlsv13 : .tlsv12
        cipherSuiteValues = configuration.cipherSuites.map(\.cipher)
        // RFC 7301 §3.2 wants a client that offers other protocols only to be refused (no_application_protocol). This
        // library goes on without a protocol then and does not tell what was offered, so such a client is served
        // HTTP/1.1, like one that offers nothing. A request that was meant for another protocol (ALPACA) still has to
        // pass as HTTP with a Host of ours.
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
                    message: "\(clients.caFile): no certificate authority can be read from it",
                    suggestion: "give a PEM file"))
        }
        // Chain, times and purpose are checked in both modes; a client has no host name to compare with.
        certificateVerification =
            switch clients.mode {
            case .required: .noHostnameVerification
            case .optional: .optionalVerification
            }
        // So that a client with several certificates knows which one is meant.
        sendCANameList = true
    }
}
