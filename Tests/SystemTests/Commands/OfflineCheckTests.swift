import Foundation
import TestSupport
import Testing

/// `check-config --offline` in a build pipeline, where the secrets and certificates of the deployment are missing.
@Suite("Offline checks", .serialized, .timeLimit(.minutes(2)))
struct OfflineCheckTests {
    private func check(_ file: String, _ flags: String...) async throws -> ChildProgram.Outcome {
        try await cloakroom(["check-config", "--config", file] + flags, directory: Executables.packageDirectory)
    }

    /// The configuration file of the shipped ConfigMap.
    private let configMap = "deploy/kubernetes/base/cloakroom.yaml"

    @Test("The shipped configurations for Compose, systemd and Kubernetes are valid with --offline, and only with it")
    func shipped() async throws {
        for file in [
            "deploy/compose/gateway/cloakroom.yaml", "deploy/systemd/cloakroom.yaml", configMap,
            "deploy/kubernetes/overlays/trial/cloakroom.yaml",
        ] {
            let offline = try await check(file, "--offline", "--strict")
            expect(offline.ending, equals: ChildProgram.Ending(status: 0), "\(offline.output)\(offline.errors)")
            expect(offline.output.contains("secrets and certificates not read)"), "\(offline.output)")
            let online = try await check(file)
            expect(online.ending, equals: ChildProgram.Ending(status: 1), "\(online.output)")
        }
    }

    @Test("--probe reports a server of the session store that cannot be used, and is not possible with --offline")
    func probe() async throws {
        let directory = try TemporaryDirectory()
        let port = try await BlackholePort(.rejects).port
        try directory.write(
            """
            listeners:
              - address: 127.0.0.1:0
            upstreams:
              api:
                targets: [http://127.0.0.1:1]
            routes:
              - { name: all, methods: [GET], path: "/*", upstream: api, requiresAuthorization: false }
            session:
              store: valkey
              secrets: [a secret that is long enough for this test]
              cookie:
                secure: false
              valkey:
                addresses: ["127.0.0.1:\(port)"]

            """, to: "cloakroom.yaml")
        let file = directory.path(of: "cloakroom.yaml")
        let plain = try await check(file)
        expect(plain.ending, equals: ChildProgram.Ending(status: 0), "\(plain.output)\(plain.errors)")
        let probed = try await check(file, "--probe")
        expect(probed.ending, equals: ChildProgram.Ending(status: 1), "\(probed.output)\(probed.errors)")
        expect(probed.output.contains("session.valkey.addresses"), "\(probed.output)")
        expect(probed.output.contains("the server at 127.0.0.1:\(port) cannot be used"), "\(probed.output)")
        expect(probed.output.contains("no usable connection: unreachable"), "\(probed.output)")
        let both = try await check(file, "--probe", "--offline")
        expect(both.ending.status == 64 && both.errors.contains("remove --offline"), "\(both.errors)")
    }
}
