import CloakroomCore
import CloakroomTelemetry
import Foundation
import Logging
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite(.timeLimit(.minutes(1))) struct ReloadTests {
    private let directory: CertificateFixture
    private let configuration: ListenerTLSConfiguration

    init() throws {
        directory = try CertificateFixture()
        configuration = try directory.server("server", names: ["old.test"]).listener
    }

    private func shown(_ server: TLSEcho) async throws -> String? {
        let client = try await TLSClient.connect(port: server.port)
        try await client.close()
        return client.serverName
    }

    @Test func newConnectionsGetTheNewCertificateAndOldOnesGoOn() async throws {
        try await TLSEcho.running(configuration) { server in
            let old = try await TLSClient.connect(port: server.port)
            expect(old.serverName, equals: "old.test")
            try directory.server("server", names: ["new.test"])
            try await expect(shown(server), equals: "old.test")
            try server.tls.reload()
            try await expect(shown(server), equals: "new.test")
            try await old.echo("still here")
            try await old.close()
        }
    }

    @Test func whatCannotBeUsedLeavesTheOldCertificateInPlace() async throws {
        try await TLSEcho.running(configuration) { server in
            let key = try String(contentsOfFile: configuration.certificate.keyFile, encoding: .utf8)
            let other = try directory.server("other", names: ["other.test"])
            let otherKey = try String(contentsOfFile: other.keyFile, encoding: .utf8)
            for (name, text, reason) in [
                ("server.key", otherKey, "server.crt and "),
                ("server.key", "nonsense", "server.key: cannot read a private key"),
                ("server.crt", "nonsense", "server.crt: cannot read a certificate"),
                ("server.crt", "", "server.crt: cannot read a certificate"),
            ] {
                try directory.write(text, to: name)
                let error = #expect(throws: ListenerError.self) { try server.tls.reload() }
                expect(error?.description.contains(reason), equals: true, "\(error?.description ?? "")")
                try await expect(shown(server), equals: "old.test")
                if name == "server.key" { try directory.write(key, to: name) }
            }
            try FileManager.default.removeItem(atPath: configuration.certificate.certificateFile)
            #expect(throws: ListenerError.self) { try server.tls.reload() }
            try await expect(shown(server), equals: "old.test")
        }
    }

    @Test("A FIFO in the place of a file is an error, and the next file at its path is read")
    func pipe() throws {
        let listener = try TLSListener(configuration, allowsHTTP2: false)
        for file in [configuration.certificate.certificateFile, configuration.certificate.keyFile] {
            let text = try String(contentsOfFile: file, encoding: .utf8)
            try FileManager.default.removeItem(atPath: file)
            expect(mkfifo(file, 0o600), equals: 0)
            var monitor = CertificateMonitor(listener)
            let failure = monitor.poll()
            expect(failure != .unchanged && failure != .reloaded(asksForOther: false))
            expect(monitor.poll(), equals: .unchangedFailure)
            try FileManager.default.removeItem(atPath: file)
            try Data(text.utf8).write(to: URL(filePath: file))
            expect(monitor.poll(), equals: .reloaded(asksForOther: false))
        }
    }

    @Test func aConfigurationThatComesWhileFilesAreReadIsNotUndone() throws {
        let listener = try TLSListener(configuration, allowsHTTP2: false)
        try directory.server("server", names: ["renewed.test"])
        let other = try directory.server("other", names: ["other.test"])
        let change = try listener.prepare(other.listener)
        try listener.reload(afterReading: { _ = change.commit() })
        expect(listener.certificates.map(\.names), equals: [["other.test"]])
        expect(!listener.isOutdated)
    }

    @Test func whatClientsHaveToShowIsToldApart() throws {
        let listener = try TLSListener(configuration, allowsHTTP2: false)
        let authority = try directory.server("authority", names: ["authority.test"]).certificateFile
        var demanding = configuration
        demanding.clientCertificates = ClientCertificateConfiguration(caFile: authority)
        expect(!(try listener.prepare(configuration)).commit())
        let demand = try listener.prepare(demanding)
        expect(!demand.relaxesClientAuth)
        expect(demand.commit())
        var watch = CertificateMonitor(listener)
        try directory.server("authority", names: ["another.test"])
        expect(watch.poll(), equals: .reloaded(asksForOther: true))
        let ease = try listener.prepare(configuration)
        expect(ease.relaxesClientAuth)
        expect(ease.commit())
    }

    @Test func oneBadPairKeepsAllTheOthersAsTheyWere() async throws {
        let more = try directory.server("more", names: ["more.test"])
        var configuration = configuration
        configuration.additionalCertificates = [
            CertificateConfiguration(certificateFile: more.certificateFile, keyFile: more.keyFile)
        ]
        try await TLSEcho.running(configuration) { server in
            try directory.server("server", names: ["new.test"])
            try directory.write("nonsense", to: "more.crt")
            #expect(throws: ListenerError.self) { try server.tls.reload() }
            try await expect(shown(server), equals: "old.test")
        }
    }

    @Test func aLookFindsWhatChangedAndTriesAgainUntilItCanBeUsed() throws {
        let listener = try TLSListener(configuration, allowsHTTP2: false)
        var watch = CertificateMonitor(listener)
        expect(watch.poll(), equals: .unchanged)
        try directory.server("server", names: ["new.test"])
        expect(watch.poll(), equals: .reloaded(asksForOther: false))
        expect(watch.poll(), equals: .unchanged)

        // A certificate whose key is not written yet.
        let next = try directory.server("next", names: ["next.test"])
        try directory.write(try String(contentsOfFile: next.certificateFile, encoding: .utf8), to: "server.crt")
        guard case .failed(let reason) = watch.poll() else {
            Issue.record("a certificate was used without its key")
            return
        }
        expect(reason.contains("do not match"))
        expect(watch.poll(), equals: .unchangedFailure)
        expect(listener.certificates.first?.names, equals: ["new.test"])
        try directory.write(try String(contentsOfFile: next.keyFile, encoding: .utf8), to: "server.key")
        expect(watch.poll(), equals: .reloaded(asksForOther: false))
        expect(listener.certificates.first?.names, equals: ["next.test"])
    }

    @Test func aLinkThatIsSwappedAsMountedSecretsAreCountsAsAChange() throws {
        let files = FileManager.default
        for version in ["1", "2"] {
            try files.createDirectory(atPath: directory.path + "/v" + version, withIntermediateDirectories: true)
            try directory.server("v\(version)/tls", names: ["version-\(version).test"])
        }
        func point(to version: String) throws {
            try files.createSymbolicLink(atPath: directory.path + "/..new", withDestinationPath: "v" + version)
            expect(rename(directory.path + "/..new", directory.path + "/..data"), equals: 0)
        }
        try point(to: "1")
        for file in ["tls.crt", "tls.key"] {
            try files.createSymbolicLink(atPath: directory.path + "/" + file, withDestinationPath: "..data/" + file)
        }
        let listener = try TLSListener(
            ListenerTLSConfiguration(
                certificateFile: directory.path + "/tls.crt", keyFile: directory.path + "/tls.key"), allowsHTTP2: false)
        var watch = CertificateMonitor(listener)
        expect(watch.poll(), equals: .unchanged)
        try point(to: "2")
        expect(watch.poll(), equals: .reloaded(asksForOther: false))
        expect(listener.certificates.first?.names, equals: ["version-2.test"])
    }

    @Test func theReloaderPutsChangesToUseAndSaysSoInMetrics() async throws {
        let registry = PrometheusRegistry()
        let listener = try TLSListener(configuration, allowsHTTP2: false)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let watching = Task {
            await CertificateReloader.watch(
                [(name: "127.0.0.1:8443", tls: listener)], every: .milliseconds(5), registry: registry, logger: logger)
        }
        let exposed = { @Sendable (line: String) in
            String(decoding: registry.exposition(), as: UTF8.self).contains(line + "\n")
        }
        let expiry = { @Sendable (certificate: ServerCertificate?) in
            "cloakroom_tls_certificate_not_after_timestamp_seconds"
                + "{file=\"\(configuration.certificate.certificateFile)\",listener=\"127.0.0.1:8443\"} "
                + "\(certificate?.notAfter ?? 0)"
        }
        let before = listener.certificates.first
        try await eventually("the expiry") { exposed(expiry(before)) }
        try directory.write("nonsense", to: "server.crt")
        try await eventually("a failure") {
            exposed("cloakroom_tls_reloads_total{listener=\"127.0.0.1:8443\",outcome=\"failure\"} 1")
        }
        try directory.server("server", names: ["new.test"])
        try await eventually("a reload") { listener.certificates.first?.names == ["new.test"] }
        try await eventually("the new expiry") { exposed(expiry(listener.certificates.first)) }
        watching.cancel()
        await watching.value
        // Files that change while they are read are loaded once more.
        let success = "cloakroom_tls_reloads_total{listener=\"127.0.0.1:8443\",outcome=\"success\"} "
        expect(exposed(success + "1") || exposed(success + "2"))
    }
}
