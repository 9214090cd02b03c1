import CloakroomCore
import NIOCore
import NIOSSL

/// What a listener's files held when they were read, ready for handshakes.
struct TLSMaterial: Sendable {
    /// Is shared by all connections: making one costs as much as many handshakes.
    let context: NIOSSLContext
    /// What clients are shown, the default first.
    let certificates: [ServedCertificate]
    /// What the files were. Taken before they were read: a file that changes meanwhile counts as changed.
    let stamps: [FileStamp?]
    /// What the file of the authorities was that clients' certificates must come from; `nil` if none are asked for.
    let clientAuthorities: FileStamp?

    /// Reads the files, and makes sure that they go together.
    /// - Throws: ``ListenerError`` which names the file.
    init(_ plan: TLSPlan, allowsHTTP2: Bool) throws {
        stamps = Self.stamps(plan)
        clientAuthorities = plan.clientCertificates == nil ? nil : stamps.last ?? nil
        let standard = try ServedCertificate(plan.certificate)
        let more = try plan.moreCertificates.map { pair in
            let certificate = try ServedCertificate(pair)
            guard !certificate.names.isEmpty else {
                throw ListenerError(
                    description: "\(pair.certificateFile): it is made out to no DNS name, so that no client could"
                        + " ask for it (give a certificate with subject alternative names)")
            }
            return certificate
        }
        certificates = [standard] + more
        var configuration = try TLSConfiguration(plan, standard, allowsHTTP2: allowsHTTP2)
        if !more.isEmpty { configuration.sslContextCallback = Self.choice(among: certificates) }
        do {
            context = try NIOSSLContext(configuration: configuration)
        } catch {
            throw ListenerError(description: "\(plan.certificate.certificateFile) makes no TLS listener: \(error)")
        }
    }

    /// All files that the plan names, as they are now.
    static func stamps(_ plan: TLSPlan) -> [FileStamp?] {
        var files = ([plan.certificate] + plan.moreCertificates).flatMap { [$0.certificateFile, $0.keyFile] }
        if let authorities = plan.clientCertificates?.caFile { files.append(authorities) }
        return files.map { FileStamp(of: $0) }
    }

    /// Runs once in each handshake. A NIO handler that reads the hello before TLS does would read it a second time,
    /// and would miss the name in one that is split over several records.
    private static func choice(among certificates: [ServedCertificate]) -> NIOSSLContextCallback {
        let table = CertificateTable(certificates.map(\.names))
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
