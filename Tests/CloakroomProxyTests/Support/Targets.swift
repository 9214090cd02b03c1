import CloakroomCore
import NIOCore
import NIOSSL

extension UpstreamTargetConfiguration {
    static func http(_ host: String, _ port: Int) -> Self { Self(HostAndPort(host: host, port: port)) }
    static func https(_ host: String, _ port: Int) -> Self { Self(HostAndPort(host: host, port: port), scheme: .https) }
}

extension RunningGateway {
    /// Waits for calls to a target of the upstream in what metrics say.
    /// - Parameter status: Empty where there was no answer.
    func calls(_ count: Int, to host: String, port: Int?, status: String = "", error: String = "") async throws {
        try await metric(
            "http_client_request_duration_seconds_count{error_type=\"\(error)\",http_request_method=\"GET\","
                + "http_response_status_code=\"\(status)\",server_address=\"\(host)\","
                + "server_port=\"\(port.map(String.init) ?? "")\",upstream=\"api\"} \(count)")
    }

    /// Waits for a number of connections to the upstream in what metrics say.
    func connections(active: Int, idle: Int) async throws {
        try await metric("cloakroom_upstream_connections{state=\"active\",upstream=\"api\"} \(active)")
        try await metric("cloakroom_upstream_connections{state=\"idle\",upstream=\"api\"} \(idle)")
    }
}

extension GatewaySetup {
    /// Gives the upstream other targets. What else is changed in the plan has to be said before.
    func targets(_ targets: UpstreamTargetConfiguration..., tls: UpstreamTLSConfiguration? = nil) -> GatewaySetup {
        let adjust = self.adjust
        return configuration { configuration in
            configuration.upstreams[0].targets = targets
            configuration.upstreams[0].tls = tls
            adjust(&configuration)
        }
    }
}

extension CertificateFixture.Pair {
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
