import CloakroomCore
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
            let section = section + ["moreCertificates", "\(index)"]
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

    /// The callback runs once per handshake. A NIO handler in front of TLS would have to parse the ClientHello again,
    /// and would miss the server name if the ClientHello is split over several records.
    private static func sniCallback(among certificates: [ServerCertificate]) -> NIOSSLContextCallback {
        let table = CertificateSelector(certificates.map(\.names))
        let overrides = certificates.map { certificate in
            var override = NIOSSLContextConfigurationOverride()
            override.certificateChain = certificate.chain
            override.privateKey = certificate.key
            return override
        }
        return { client, promise in
            // The first certificate is the default of the context.
            guard let index = client.serverHostname.flatMap(table.index), index > 0 else {
                return promise.succeed(.noChanges)
            }
            promise.succeed(overrides[index])
        }
    }
}
