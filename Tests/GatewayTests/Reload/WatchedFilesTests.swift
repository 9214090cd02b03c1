import CloakroomConfig
import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import cloakroom

@Suite("Files of identities")
struct WatchedFilesTests {
    private static let yaml = """
        listeners: [{ address: "127.0.0.1:8080" }]
        session: { cookie: { secure: false } }
        accounts: { publicURL: "http://127.0.0.1:8080" }
        identities:
          company:
            issuer: https://id.test
            client: { id: cloakroom, authentication: private_key_jwt, keyFile: client.pem }
          partners:
            issuer: https://partners.test
            client: { id: cloakroom, secretFile: client-secret }
        upstreams: { api: { targets: ["http://127.0.0.1:9000"] } }
        routes: [{ name: all, methods: [GET], path: "/*", requiresAuthorization: true }]
        """
    private static let p256 = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2
        OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r
        1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G
        -----END PRIVATE KEY-----

        """

    private func read(key: String) throws -> (directory: TemporaryDirectory, snapshot: ConfigFileSnapshot) {
        let directory = try TemporaryDirectory()
        try directory.write(key, to: "client.pem")
        try directory.write("a-secret-of-the-client\n", to: "client-secret")
        try directory.write(Self.yaml, to: "cloakroom.yaml")
        return (directory, try ConfigFileSnapshot.read(ConfigSources(file: directory.path(of: "cloakroom.yaml"))))
    }

    @Test("A change of the client's key or secret is a reason to reload")
    func watched() throws {
        let (directory, snapshot) = try read(key: Self.p256)
        expect(
            snapshot.config.watchedFiles.isSuperset(of: ["client.pem", "client-secret"].map(directory.path(of:))))
    }

    @Test("A change of the CA file of a provider is a reason to reload")
    func watchedCA() throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.p256, to: "client.pem")
        try directory.write("a-secret-of-the-client\n", to: "client-secret")
        try directory.write("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", to: "ca.pem")
        let issuer = "issuer: https://partners.test"
        try directory.write(
            Self.yaml.replacing(issuer, with: issuer + "\n    tls: { caFile: ca.pem }"), to: "cloakroom.yaml")
        let snapshot = try ConfigFileSnapshot.read(ConfigSources(file: directory.path(of: "cloakroom.yaml")))
        expect(snapshot.config.watchedFiles.contains(directory.path(of: "ca.pem")))
    }

    @Test("A change of the logo or the style of pages is a reason to reload")
    func watchedPages() throws {
        let directory = try TemporaryDirectory()
        for name in ["client.pem", "a.svg", "a.css"] { try directory.write(Self.p256, to: name) }
        try directory.write("a-secret-of-the-client\n", to: "client-secret")
        try directory.write(Self.yaml + "\npages: { logo: a.svg, style: a.css }\n", to: "cloakroom.yaml")
        let snapshot = try ConfigFileSnapshot.read(ConfigSources(file: directory.path(of: "cloakroom.yaml")))
        expect(snapshot.config.watchedFiles.isSuperset(of: ["a.svg", "a.css"].map(directory.path(of:))))
    }

    @Test("A FIFO in the place of a key is an error, and has no contents", .timeLimit(.minutes(1)))
    func pipe() throws {
        let (directory, snapshot) = try read(key: Self.p256)
        let file = directory.path(of: "client.pem")
        expect(FileDigests(of: [file]).hash(of: file) != "")
        try FileManager.default.removeItem(atPath: file)
        expect(mkfifo(file, 0o600), equals: 0)
        expect(FileDigests(of: [file]).hash(of: file), equals: "")
        expect(ReferencedFileChecks.findings(in: snapshot.config.configuration).map(\.isWarning), equals: [false])
    }

    @Test("A key for the algorithm is accepted; any other file is an error at its key with a remedy")
    func keyFiles() throws {
        let (directory, snapshot) = try read(key: Self.p256)
        let configuration = snapshot.config.configuration
        expect(empty: ReferencedFileChecks.findings(in: configuration))
        try directory.write(Self.p256.replacing("MIGH", with: "MIGG"), to: "client.pem")
        let found = ReferencedFileChecks.findings(in: configuration)
        expect(found.map(\.key), equals: [["identities", "company", "client", "keyFile"]])
        expect(found.allSatisfy { !$0.isWarning && $0.message.contains("client.pem") })
        expect(found.first?.suggestion, equals: "use an unencrypted PEM file with a key of the curve P-256")
    }
}
