import CloakroomCore
import CloakroomTLS
import FoundationEssentials
import NIOCore
import NIOSSL

/// Content of a listener's TLS files, ready for handshakes.
struct TLSMaterial: Sendable {
    /// Shared by all connections: creating a context costs as much as many handshakes.
    let context: NIOSSLContext
    /// The server certificates, the default first.
    let certificates: [ServerCertificate]
    /// Stamps of the files, taken before reading them: a file that changes while it is read counts as changed.
    let stamps: [FileFingerprint?]
    /// Stamp of the file with the authorities for client certificates; `nil` if none are requested.
    let clientAuthorities: FileFingerprint?

    /// Reads the files and checks that they match.
    /// - Parameter section: Key of the configuration section; see ``ConfigFinding``.
    /// - Throws: ``ListenerError`` which names the file.
    init(_ listenerTLS: ListenerTLSConfiguration, allowsHTTP2: Bool, at section: [String] = []) throws {
        stamps = Self.stamps(listenerTLS)
        clientAuthorities = listenerTLS.clientCertificates == nil ? nil : stamps.last ?? nil
        let standard = try ServerCertificate(listenerTLS.certificate, at: section)
        let more = try listenerTLS.additionalCertificates.enumerated().map { index, pair in
            let section = section + ["additionalCertificates", "\(index)"]
            let certificate = try ServerCertificate(pair, at: section)
            guard !certificate.names.isEmpty else {
                throw ListenerError(
                    ConfigFinding(
                        key: section + ["certificateFile"],
                        message:
                            "\(pair.certificateFile): no DNS subject alternative name, so SNI cannot select it",
                        suggestion: "use a certificate with subject alternative names"))
            }
            return certificate
        }
        certificates = [standard] + more
        var configuration = try TLSConfiguration(listenerTLS, standard, allowsHTTP2: allowsHTTP2, at: section)
        if !more.isEmpty { configuration.sslContextCallback = Self.sniCallback(among: certificates) }
        do {
            context = try NIOSSLContext(configuration: configuration)
        } catch {
            throw ListenerError(
                ConfigFinding(
                    key: section + ["certificateFile"],
                    message: "\(listenerTLS.certificate.certificateFile): TLS context cannot be created: \(error)",
                    suggestion: "check that the certificates in the file are complete"))
        }
    }

    /// Current stamps of all files that the configuration names.
    static func stamps(_ listenerTLS: ListenerTLSConfiguration) -> [FileFingerprint?] {
        var files = ([listenerTLS.certificate] + listenerTLS.additionalCertificates).flatMap {
            [$0.certificateFile, $0.keyFile]
        }
        if let authorities = listenerTLS.clientCertificates?.caFile { files.append(authorities) }
        return files.map { FileFingerprint(of: $0) }
    }

    /// Selects the certificate by the host name in the ClientHello (SNI, RFC 6066 §3); among equals the first in the
    /// configuration is used.
    ///
    /// The callback runs once per handshake. A NIO handler in front of TLS would have to parse the ClientHello again,
    /// and would miss the server name if the ClientHello is split over several records.
    private static func sniCallback(among certificates: [ServerCertificate]) -> NIOSSLContextCallback {
        let names = HostNames(certificates.map(\.names))
        let overrides = certificates.map { certificate in
            var override = NIOSSLContextConfigurationOverride()
            override.certificateChain = certificate.chain
            override.privateKey = certificate.key
            return override
        }
        return { client, promise in
            // The first certificate is the default of the context.
            guard let host = client.serverHostname.flatMap(HostNames.folded), let index = names.value(of: host),
                index > 0
            else {
                return promise.succeed(.noChanges)
            }
            promise.succeed(overrides[index])
        }
    }
}

extension TLSConfiguration {
    /// Creates a listener's TLS configuration, except for the selection of a certificate. Renegotiation is disabled
    /// (the default), TLS session tickets are enabled with keys that BoringSSL generates and rotates, OCSP stapling is
    /// not supported.
    ///
    /// BoringSSL stores sessions in the context only for clients of TLS 1.2 without support for tickets: at most 20,480
    /// of about 0.5 KiB, for 2 hours. With client certificates each has the chain of its client too: what it sent, at most
    /// ``HandshakeInput/limit``, and about 1.6 times as much for the parsed certificates. swift-nio-ssl has no setting for
    /// this store.
    /// - Parameter section: Key of the configuration section; see ``ConfigFinding``.
    /// - Throws: ``ListenerError`` which names the file.
    init(
        _ configuration: ListenerTLSConfiguration, _ certificate: ServerCertificate, allowsHTTP2: Bool,
        at section: [String]
    ) throws {
        self = .makeServerConfiguration(certificateChain: certificate.chain, privateKey: certificate.key)
        minimumTLSVersion = configuration.minimumVersion == .tls13 ? .tlsv13 : .tlsv12
        cipherSuiteValues = TLSCipherSuite.allCases.map(\.cipher)
        // RFC 7301 §3.2 requires rejecting clients that offer only other protocols (no_application_protocol). BoringSSL
        // continues without ALPN instead and does not report the offer, so such clients are served HTTP/1.1, like
        // clients without ALPN. A cross-protocol request (ALPACA) would still have to be valid HTTP with a `Host` of
        // the gateway.
        applicationProtocols = allowsHTTP2 ? ["h2", "http/1.1"] : ["http/1.1"]
        // A connection that is closed in order waits for the client's close_notify. Its handler is kept for this time even if the
        // client has reset the connection, and nothing counts it then.
        shutdownTimeout = .seconds(1)
        if let clients = configuration.clientCertificates { try requireClientCertificates(clients, at: section) }
    }

    private mutating func requireClientCertificates(_ clients: ClientCertificateConfiguration, at section: [String])
        throws
    {
        do {
            trustRoots = .certificates(try PEMFile.certificates(in: clients.caFile))
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

/// Identifies the version of a file, to detect changes. Symbolic links are resolved: mounted secrets are replaced by
/// changing a link.
struct FileFingerprint: Sendable, Equatable {
    private let path: String
    private let modified: Date
    /// Device, inode and size as text: the types of these attributes are not documented.
    private let numbers: [String]

    /// - Returns: `nil` if the file does not exist or its attributes cannot be read.
    init?(of path: String) {
        self.path = URL(filePath: path).resolvingSymlinksInPath().path
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: self.path),
            let modified = attributes[.modificationDate] as? Date
        else { return nil }
        self.modified = modified
        numbers = [.systemNumber, .systemFileNumber, .size].map { (key: FileAttributeKey) in
            attributes[key].map { "\($0)" } ?? ""
        }
    }
}
