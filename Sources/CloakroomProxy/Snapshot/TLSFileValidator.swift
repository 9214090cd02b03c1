public import CloakroomCore
import CloakroomTLS
import NIOSSL

/// Validates the files that TLS requires, in the way they are used.
public enum TLSFileValidator {
    /// Reads all certificates, keys and trust roots of a configuration and builds the TLS contexts from them.
    /// - Parameter now: Time at which certificates have to be valid.
    /// - Returns: One error with a suggestion per section with invalid files, and one warning per file with a
    ///   certificate that has expired or is not valid yet. Expiry is no error: a gateway must be able to restart after
    ///   a certificate has expired.
    public static func findings(in configuration: GatewayConfiguration, now: WallTime) -> [ConfigFinding] {
        var findings: [ConfigFinding] = []
        for (index, listener) in configuration.listeners.enumerated() {
            guard let tls = listener.tls else { continue }
            findings += self.findings(
                tls, allowsHTTP2: listener.http2, at: ["listeners", "\(index)", "tls"], now: now)
        }
        for upstream in configuration.upstreams {
            guard let tls = upstream.tls else { continue }
            findings += self.findings(tls, at: ["upstreams", upstream.name, "tls"], now: now)
        }
        for identity in configuration.identities {
            guard let caFile = identity.caFile else { continue }
            findings += self.findings(
                UpstreamTLSConfiguration(caFile: caFile), at: ["identities", identity.name, "tls"], now: now)
        }
        if configuration.tracing.exporter == .otlp, configuration.tracing.otlp.caFile != nil {
            findings += self.findings(configuration.tracing.otlp.tls, at: ["tracing", "otlp"], now: now)
        }
        if configuration.session.store == .valkey, let tls = configuration.session.valkey.tls {
            findings += self.findings(tls, at: ["session", "valkey", "tls"], now: now)
        }
        return findings
    }

    private static func findings(
        _ tls: ListenerTLSConfiguration, allowsHTTP2: Bool, at section: [String], now: WallTime
    ) -> [ConfigFinding] {
        do {
            _ = try TLSListener(tls, allowsHTTP2: allowsHTTP2, at: section)
        } catch {
            let unknown = ConfigFinding(key: section + ["certificateFile"], message: "\(error)", suggestion: "")
            return [(error as? any ConfigFindingError)?.finding ?? unknown]
        }
        var findings: [ConfigFinding?] = [
            validity(of: tls.certificate.certificateFile, at: section + ["certificateFile"], now: now)
        ]
        for (index, pair) in tls.additionalCertificates.enumerated() {
            findings.append(
                validity(
                    of: pair.certificateFile, at: section + ["additionalCertificates", "\(index)", "certificateFile"],
                    now: now))
        }
        if let clients = tls.clientCertificates {
            findings.append(roots(in: clients.caFile, at: section + ["clientCertificates", "caFile"], now: now))
        }
        return findings.compactMap(\.self)
    }

    private static func findings(_ tls: UpstreamTLSConfiguration, at section: [String], now: WallTime)
        -> [ConfigFinding]
    {
        do {
            _ = try UpstreamTLS.context(tls)
        } catch {
            var roots = tls
            roots.clientCertificate = nil
            let isPair = (try? UpstreamTLS.context(roots)) != nil
            return [
                ConfigFinding(
                    key: section + [isPair ? "keyFile" : "caFile"], message: error.description, suggestion: "")
            ]
        }
        return [
            tls.caFile.flatMap { roots(in: $0, at: section + ["caFile"], now: now) },
            tls.clientCertificate.flatMap {
                validity(of: $0.certificateFile, at: section + ["certificateFile"], now: now)
            },
        ].compactMap(\.self)
    }

    // MARK: - Validity

    /// Checks the validity period of a certificate chain: all certificates have to be valid.
    private static func validity(of file: String, at key: [String], now: WallTime) -> ConfigFinding? {
        for certificate in certificates(in: file) {
            if let message = message(certificate, file, now) {
                return ConfigFinding(
                    key: key, message: message, suggestion: "renew the certificate: peers reject it", isWarning: true)
            }
        }
        return nil
    }

    /// Checks the validity periods of trust roots. Bundles often contain expired ones, so one valid certificate is
    /// enough.
    private static func roots(in file: String, at key: [String], now: WallTime) -> ConfigFinding? {
        let messages = certificates(in: file).map { message($0, file, now) }
        guard let first = messages.first ?? nil, messages.allSatisfy({ $0 != nil }) else { return nil }
        return ConfigFinding(
            key: key, message: first, suggestion: "replace it: certificates issued by it are rejected", isWarning: true)
    }

    private static func certificates(in file: String) -> [NIOSSLCertificate] {
        (try? PEMFile.certificates(in: file)) ?? []
    }

    private static func message(_ certificate: NIOSSLCertificate, _ file: String, _ now: WallTime) -> String? {
        let seconds = now.milliseconds / 1_000
        let (first, last) = (Int64(certificate.notValidBefore), Int64(certificate.notValidAfter))
        if seconds > last { return "the certificate in \(file) expired on \(WallTime(seconds: last).iso8601)" }
        if seconds < first {
            return "the certificate in \(file) is not valid before \(WallTime(seconds: first).iso8601)"
        }
        return nil
    }
}
