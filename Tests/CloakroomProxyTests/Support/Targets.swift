import CloakroomCore
import NIOCore
import NIOSSL

extension UpstreamTargetPlan {
    static func http(_ host: String, _ port: Int) -> Self { Self(HostAndPort(host: host, port: port)) }
    static func https(_ host: String, _ port: Int) -> Self { Self(HostAndPort(host: host, port: port), scheme: .https) }
}

extension GatewaySetup {
    /// Gives the upstream other targets.
    func targets(_ targets: UpstreamTargetPlan..., tls: UpstreamTLSPlan? = nil) -> GatewaySetup {
        let adjust = self.adjust
        return plan { plan in
            plan.upstreams[0].targets = targets
            plan.upstreams[0].tls = tls
            adjust(&plan)
        }
    }
}

extension CertificateFolder.Pair {
    /// A server that shows this certificate.
    /// - Parameter authority: PEM file of who signs its clients' certificates; `nil` wants none.
    func serverContext(clientsSignedBy authority: String? = nil) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificateFile).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: keyFile, format: .pem)))
        if let authority {
            configuration.certificateVerification = .noHostnameVerification
            configuration.trustRoots = .file(authority)
        }
        return try NIOSSLContext(configuration: configuration)
    }
}
