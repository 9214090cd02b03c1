import CloakroomProxy
import Foundation
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("TLS files, checked before they are used")
struct TLSFilesTests {
    private let directory: CertificateFixture
    private let good: CertificateFixture.Pair
    private let expired: CertificateFixture.Pair
    private let early: CertificateFixture.Pair

    init() throws {
        directory = try CertificateFixture()
        good = try directory.server("good", names: ["a.test"])
        expired = try directory.server("expired", names: ["b.test"], isExpired: true)
        early = try directory.server("early", names: ["c.test"], isEarly: true)
    }

    private var now: WallTime { WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000)) }

    private func findings(_ adjust: (inout GatewayConfiguration) -> Void) -> [ConfigFinding] {
        var configuration = GatewayConfiguration(listeners: [], upstreams: [], routes: [])
        adjust(&configuration)
        return TLSFileValidator.findings(in: configuration, now: now)
    }

    private func listener(_ tls: ListenerTLSConfiguration) -> ListenerConfiguration {
        ListenerConfiguration(address: HostAndPort(host: "127.0.0.1", port: 0), tls: tls)
    }

    private func tls(
        _ pair: CertificateFixture.Pair, keyOf other: CertificateFixture.Pair? = nil,
        more: [CertificateConfiguration] = [],
        clients: ClientCertificateConfiguration? = nil
    ) -> ListenerTLSConfiguration {
        ListenerTLSConfiguration(
            certificateFile: pair.certificateFile, keyFile: (other ?? pair).keyFile, additionalCertificates: more,
            minimumVersion: .tls12, clientCertificates: clients)
    }

    @Test("Valid files that match have no findings")
    func fine() {
        let clients = ClientCertificateConfiguration(caFile: directory.authorityFile, mode: .required)
        expect(findings { $0.listeners = [listener(tls(good, clients: clients))] }, equals: [])
    }

    @Test("A certificate that has expired, or is not valid yet, is a warning with its key and the time")
    func validity() {
        let more = CertificateConfiguration(certificateFile: early.certificateFile, keyFile: early.keyFile)
        let found = findings { $0.listeners = [listener(tls(good)), listener(tls(expired, more: [more]))] }
        expect(
            found.map(\.key),
            equals: [
                ["listeners", "1", "tls", "certificateFile"],
                ["listeners", "1", "tls", "additionalCertificates", "0", "certificateFile"],
            ])
        expect(found.allSatisfy { $0.isWarning })
        expect(found.first?.message.contains("expired.crt expired on 20"), equals: true, "\(found)")
        expect(found.last?.message.contains("early.crt is not valid before 20"), equals: true, "\(found)")
    }

    @Test("An expired client certificate for an upstream is a warning too, and so is a CA file without a valid CA")
    func upstreams() throws {
        let client = try directory.client("client", isExpired: true)
        let found = findings { configuration in
            var tls = UpstreamTLSConfiguration(caFile: expired.certificateFile)
            tls.clientCertificate = .init(certificateFile: client.certificateFile, keyFile: client.keyFile)
            var upstream = UpstreamConfiguration(name: "api", targets: [])
            upstream.tls = tls
            configuration.upstreams = [upstream]
        }
        expect(
            found.map(\.key),
            equals: [
                ["upstreams", "api", "tls", "caFile"], ["upstreams", "api", "tls", "certificateFile"],
            ])
        expect(found.allSatisfy { $0.isWarning })
    }

    @Test("One valid CA among several is enough")
    func someAuthorities() throws {
        let both = try [expired.certificateFile, directory.authorityFile].map {
            try String(contentsOfFile: $0, encoding: .utf8)
        }
        try directory.write(both.joined(separator: "\n"), to: "both.crt")
        let clients = ClientCertificateConfiguration(caFile: directory.path + "/both.crt", mode: .required)
        expect(findings { $0.listeners = [listener(tls(good, clients: clients))] }, equals: [])
    }

    @Test("A private key that belongs to another certificate is an error that names both files, at the key's location")
    func otherKey() throws {
        let found = findings { $0.listeners = [listener(tls(good, keyOf: early))] }
        expect(found.map(\.key), equals: [["listeners", "0", "tls", "keyFile"]])
        let message = found.first?.message ?? ""
        expect(message.contains("good.crt") && message.contains("early.key"), "\(message)")
        expect(message.contains("the key belongs to another certificate"), "\(message)")
        expect(found.allSatisfy { !$0.isWarning })

        let upstream = findings { configuration in
            var upstream = UpstreamConfiguration(name: "api", targets: [])
            upstream.tls = UpstreamTLSConfiguration(caFile: directory.authorityFile)
            upstream.tls?.clientCertificate = .init(certificateFile: good.certificateFile, keyFile: early.keyFile)
            configuration.upstreams = [upstream]
        }
        expect(upstream.map(\.key), equals: [["upstreams", "api", "tls", "keyFile"]])
        expect(upstream.allSatisfy { !$0.isWarning })
    }

    @Test("The files of the session store are checked if it is configured")
    func store() {
        let found = findings { configuration in
            configuration.session.store = .valkey
            configuration.session.valkey.tls = UpstreamTLSConfiguration(caFile: "/nowhere/ca.crt")
        }
        expect(found.map(\.key), equals: [["session", "valkey", "tls", "caFile"]])
        expect(findings { $0.session.valkey.tls = UpstreamTLSConfiguration(caFile: "/nowhere/ca.crt") }, equals: [])
    }
}
