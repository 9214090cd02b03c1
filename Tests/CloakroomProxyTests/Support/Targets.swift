import CloakroomCore
import CloakroomWire
import NIOCore
import NIOSSL

extension UpstreamTargetConfiguration {
    static func http(_ host: String, _ port: Int) -> Self { Self(HostAndPort(host: host, port: port)) }
    static func https(_ host: String, _ port: Int) -> Self { Self(HostAndPort(host: host, port: port), scheme: .https) }
}

extension RunningGateway {
    /// Waits until the metrics contain a number of calls to a target of the upstream.
    /// - Parameter status: Empty if there was no response.
    func calls(_ count: Int, to host: String, port: Int?, status: String = "", error: String = "") async throws {
        try await metric(
            "http_client_request_duration_seconds_count{error_type=\"\(error)\",http_request_method=\"GET\","
                + "http_response_status_code=\"\(status)\",server_address=\"\(host)\","
                + "server_port=\"\(port.map(String.init) ?? "")\",upstream=\"api\"} \(count)")
    }

    /// Waits until the metrics contain a number of connections to the upstream.
    func connections(active: Int, idle: Int) async throws {
        try await metric("cloakroom_upstream_connections{state=\"active\",upstream=\"api\"} \(active)")
        try await metric("cloakroom_upstream_connections{state=\"idle\",upstream=\"api\"} \(idle)")
    }
}

extension GatewaySetup {
    func targets(_ targets: UpstreamTargetConfiguration..., tls: UpstreamTLSConfiguration? = nil) -> GatewaySetup {
        configuration {
            $0.upstreams[0].targets = targets
            $0.upstreams[0].tls = tls
        }
    }
}

extension CertificateFixture.Pair {
    /// The TLS configuration of a listener with this certificate.
    var listener: ListenerTLSConfiguration { listener(and: []) }

    /// The TLS configuration of a listener with this certificate and others.
    func listener(and others: [CertificateFixture.Pair]) -> ListenerTLSConfiguration {
        ListenerTLSConfiguration(
            certificateFile: certificateFile, keyFile: keyFile,
            additionalCertificates: others.map {
                CertificateConfiguration(certificateFile: $0.certificateFile, keyFile: $0.keyFile)
            })
    }

    /// A TLS context for a server with this certificate.
    /// - Parameter authority: PEM file of the CA for client certificates; `nil` requests none.
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
