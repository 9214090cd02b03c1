import CloakroomCore
import NIOCore
import NIOSSL

/// What a listener's files held when they were read, ready for handshakes.
struct TLSMaterial: Sendable {
    /// Is shared by all connections: making one costs as much as many handshakes.
    let context: NIOSSLContext
    /// What clients are shown, the default first.
    let certificates: [ServerCertificate]
    /// What the files were. Taken before they were read: a file that changes meanwhile counts as changed.
    let stamps: [FileFingerprint?]
    /// What the file of the authorities was that clients' certificates must come from; `nil` if none are asked for.
    let clientAuthorities: FileFingerprint?

    /// Reads the files, and makes sure that they go together.
    /// - Parameter section: The key of the section that the plan was read from; see ``ConfigFinding``.
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
                            "\(pair.certificateFile): it is made out to no DNS name, so that no client could ask for it",
                        suggestion: "give a certificate with subject alternative names"))
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
                    message: "\(listenerTLS.certificate.certificateFile) makes no TLS listener: \(error)",
                    suggestion: "check that the certificates in it are whole"))
        }
    }

    /// All files that the plan names, as they are now.
    static func stamps(_ listenerTLS: ListenerTLSConfiguration) -> [FileFingerprint?] {
        var files = ([listenerTLS.certificate] + listenerTLS.additionalCertificates).flatMap {
            [$0.certificateFile, $0.keyFile]
        }
        if let authorities = listenerTLS.clientCertificates?.caFile { files.append(authorities) }
        return files.map { FileFingerprint(of: $0) }
    }

    /// Runs once in each handshake. A NIO handler that reads the hello before TLS does would read it a second time,
    /// and would miss the name in one that is split over several records.
    private static func sniCallback(among certificates: [ServerCertificate]) -> NIOSSLContextCallback {
        let table = CertificateSelector(certificates.map(\.names))
        let overrides = certificates.map { certificate in
            var override = NIOSSLContextConfigurationOverride()
            override.certificateChain = certificate.chain
            override.privateKey = certificate.key
            return override
        }
        return { client, promise in
            // The first is what the context has anyway.
            guard let index = client.serverHostname.flatMap(table.index), index > 0 else {
                return promise.succeed(.noChanges)
            }
            promise.succeed(overrides[index])
        }
    }
}
