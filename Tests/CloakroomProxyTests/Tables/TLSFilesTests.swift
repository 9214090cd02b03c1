import CloakroomCore
import CloakroomProxy
import Foundation
import Testing

@Suite("Files for TLS, tried before they are used")
struct TLSFilesTests {
    private let folder: CertificateFolder
    private let good: CertificateFolder.Pair
    private let expired: CertificateFolder.Pair
    private let early: CertificateFolder.Pair

    init() throws {
        folder = try CertificateFolder()
        good = try folder.server("good", names: ["a.test"])
        expired = try folder.server("expired", names: ["b.test"], isExpired: true)
        early = try folder.server("early", names: ["c.test"], isEarly: true)
    }

    private var now: Timestamp { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000)) }

    private func findings(_ adjust: (inout GatewayPlan) -> Void) -> [ConfigFinding] {
        var plan = GatewayPlan(listeners: [], upstreams: [], routes: [])
        adjust(&plan)
        return TLSFiles.findings(in: plan, now: now)
    }

    private func listener(_ tls: TLSPlan) -> ListenerPlan {
        ListenerPlan(address: HostAndPort(host: "127.0.0.1", port: 0), tls: tls)
    }

    private func tls(
        _ pair: CertificateFolder.Pair, keyOf other: CertificateFolder.Pair? = nil, more: [CertificatePlan] = [],
        clients: ClientCertificatePlan? = nil
    ) -> TLSPlan {
        TLSPlan(
            certificateFile: pair.certificateFile, keyFile: (other ?? pair).keyFile, moreCertificates: more,
            minimumVersion: .tls12, cipherSuites: TLSCipherSuite.allCases, clientCertificates: clients)
    }

    @Test("Valid files that go together are nothing to tell")
    func fine() {
        let clients = ClientCertificatePlan(caFile: folder.authorityFile, mode: .required)
        #expect(findings { $0.listeners = [listener(tls(good, clients: clients))] } == [])
    }

    @Test("A certificate that has expired, or is not valid yet, is a warning with its key and the time")
    func validity() {
        let more = CertificatePlan(certificateFile: early.certificateFile, keyFile: early.keyFile)
        let found = findings { $0.listeners = [listener(tls(good)), listener(tls(expired, more: [more]))] }
        #expect(
            found.map(\.key) == [
                ["listeners", "1", "tls", "certificateFile"],
                ["listeners", "1", "tls", "moreCertificates", "0", "certificateFile"],
            ])
        #expect(found.allSatisfy { $0.isWarning })
        #expect(found.first?.message.contains("expired.crt expired on 20") == true, "\(found)")
        #expect(found.last?.message.contains("early.crt is not valid before 20") == true, "\(found)")
    }

    @Test("So is one that is shown to an upstream, and authorities of which none is valid")
    func upstreams() throws {
        let client = try folder.client("client", isExpired: true)
        let found = findings { plan in
            var tls = UpstreamTLSPlan(caFile: expired.certificateFile)
            tls.clientCertificate = .init(certificateFile: client.certificateFile, keyFile: client.keyFile)
            var upstream = UpstreamPlan(name: "api", targets: [])
            upstream.tls = tls
            plan.upstreams = [upstream]
        }
        #expect(
            found.map(\.key) == [
                ["upstreams", "api", "tls", "caFile"], ["upstreams", "api", "tls", "certificateFile"],
            ])
        #expect(found.allSatisfy { $0.isWarning })
    }

    @Test("One valid authority among several is enough")
    func someAuthorities() throws {
        let both = try [expired.certificateFile, folder.authorityFile].map {
            try String(contentsOfFile: $0, encoding: .utf8)
        }
        try folder.write(both.joined(separator: "\n"), to: "both.crt")
        let clients = ClientCertificatePlan(caFile: folder.path + "/both.crt", mode: .required)
        #expect(findings { $0.listeners = [listener(tls(good, clients: clients))] } == [])
    }

    @Test("A key of another certificate is an error that names both files, at the key's place")
    func otherKey() throws {
        let found = findings { $0.listeners = [listener(tls(good, keyOf: early))] }
        #expect(found.map(\.key) == [["listeners", "0", "tls", "keyFile"]])
        let message = found.first?.message ?? ""
        #expect(message.contains("good.crt") && message.contains("early.key"), "\(message)")
        #expect(message.contains("the key belongs to another certificate"), "\(message)")
        #expect(found.allSatisfy { !$0.isWarning })

        let upstream = findings { plan in
            var upstream = UpstreamPlan(name: "api", targets: [])
            upstream.tls = UpstreamTLSPlan(caFile: folder.authorityFile)
            upstream.tls?.clientCertificate = .init(certificateFile: good.certificateFile, keyFile: early.keyFile)
            plan.upstreams = [upstream]
        }
        #expect(upstream.map(\.key) == [["upstreams", "api", "tls", "keyFile"]])
        #expect(upstream.allSatisfy { !$0.isWarning })
    }

    @Test("The session server's files are tried where there is one")
    func store() {
        let found = findings { plan in
            plan.session.store = .valkey
            plan.session.valkey.tls = UpstreamTLSPlan(caFile: "/nowhere/ca.crt")
        }
        #expect(found.map(\.key) == [["session", "valkey", "tls", "caFile"]])
        #expect(findings { $0.session.valkey.tls = UpstreamTLSPlan(caFile: "/nowhere/ca.crt") } == [])
    }
}
