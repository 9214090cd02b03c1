import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

@testable import cloakroom_demo

/// `cloakroom serve` and `cloakroom reload` as the systemd unit runs them.
@Suite("Service manager", .serialized, .timeLimit(.minutes(2)))
struct ServiceManagerTests {
    private func reload(_ folder: String) async throws -> ChildProgram.Outcome {
        try await cloakroom(["reload"], environment: ["RUNTIME_DIRECTORY": folder])
    }

    @Test("Readiness, reloads with their results, and the stop are reported to the service manager")
    func unit() async throws {
        let directory = try TemporaryDirectory()
        let manager = try NotifyReceiver(directory.path(of: "notify"))
        let (first, second) = (try DemoCertificate(), try DemoCertificate())
        defer {
            first.remove()
            second.remove()
        }
        func install(_ certificate: String, _ key: String) throws {
            try directory.write(try String(contentsOfFile: certificate, encoding: .utf8), to: "tls.crt")
            try directory.write(try String(contentsOfFile: key, encoding: .utf8), to: "tls.key")
        }
        try install(first.certificateFile, first.keyFile)
        var configuration = GatewayYAML(upstream: "http://127.0.0.1:9")
        configuration.certificate = (directory.path(of: "tls.crt"), directory.path(of: "tls.key"))
        try directory.write(configuration.yaml, to: "cloakroom.yaml")
        let folder = directory.url.path
        try await ChildProgram.running(
            try Executables.cloakroom(),
            ["serve", "--config", directory.path(of: "cloakroom.yaml"), "--set", "reload.interval=0s"],
            environment: ["NOTIFY_SOCKET": directory.path(of: "notify"), "RUNTIME_DIRECTORY": folder]
        ) { program in
            let ready = try await manager.next()
            expect(ready.hasPrefix("READY=1\nSTATUS=Serving on 127.0.0.1:"), "\(ready)")
            // Lines are written in the background.
            _ = try await program.waits(for: "the lines of all listeners") { program in
                let messages = program.logLines.map(\.message)
                let isComplete =
                    messages.filter { $0 == "listening" }.count == 2 && messages.contains("admin listener started")
                return isComplete ? true : nil
            }

            // A renewed certificate and its key.
            try install(second.certificateFile, second.keyFile)
            let renewed = try await reload(folder)
            expect(renewed.ending, equals: ChildProgram.Ending(status: 0), "\(renewed.errors)")
            expect(renewed.output.hasPrefix("reloaded, configuration "))
            let reloading = try await manager.next()
            let time = reloading.split(separator: "\n").first { $0.hasPrefix("MONOTONIC_USEC=") }?.dropFirst(15)
            expect(reloading.hasPrefix("RELOADING=1\n") && (time.flatMap { Int64($0) } ?? 0) > 0, "\(reloading)")
            try await expect(manager.next(), equals: ready)

            // A warning is printed as `check-config` prints it.
            try directory.write(
                configuration.yaml.replacing("methods: [GET]", with: "methods: [GET, GETT]"), to: "cloakroom.yaml")
            let warned = try await reload(folder)
            expect(warned.ending, equals: ChildProgram.Ending(status: 0), "\(warned.errors)")
            let warnings = warned.errors.split(separator: "\n").filter { $0.contains("\"GETT\"") }
            expect(!warnings.isEmpty && warnings.allSatisfy { $0.ranges(of: "warning: ").count == 1 }, "\(warnings)")
            try await expect(manager.next().hasPrefix("RELOADING=1\n"))
            try await expect(manager.next(), equals: ready)

            // A certificate with the key of another one.
            try install(first.certificateFile, second.keyFile)
            let broken = try await reload(folder)
            expect(broken.ending, equals: ChildProgram.Ending(status: 1))
            expect(broken.output, equals: "")
            expect(broken.errors.contains(directory.path(of: "tls.key")), "\(broken.errors)")
            expect(broken.errors.contains("keeps the previous configuration and certificates"))
            try await expect(manager.next().hasPrefix("RELOADING=1\n"))
            let failed = try await manager.next()
            expect(failed.hasPrefix("\(ready); last reload failed: "), "\(failed)")

            program.send(SIGTERM)
            try await expect(manager.next().hasPrefix("STOPPING=1\n"))
            try await expect(program.ending(), equals: ChildProgram.Ending(status: 0))
        }
        let gone = try await reload(folder)
        expect(gone.ending, equals: ChildProgram.Ending(status: 1))
        expect(gone.errors.contains("no gateway of this user listens on \(folder)/control.sock"), "\(gone.errors)")
    }

    @Test("Watchdog messages are sent to an abstract socket while event loops run")
    func watchdog() async throws {
        let directory = try TemporaryDirectory()
        let name = "@cloakroom-\(UUID().uuidString)"
        let manager = try NotifyReceiver(name)
        try directory.write(GatewayYAML(upstream: "http://127.0.0.1:9").yaml, to: "cloakroom.yaml")
        try await ChildProgram.running(
            try Executables.cloakroom(), ["serve", "--config", directory.path(of: "cloakroom.yaml")],
            environment: ["NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"]
        ) { program in
            _ = try await manager.message { $0.hasPrefix("READY=1") }
            for _ in 0..<3 { _ = try await manager.message { $0 == "WATCHDOG=1" } }
            expect(program.isRunning)
        }
    }

    @Test("reload without a control socket, and with a path that is too long, prints what to write")
    func usage() async throws {
        let none = try await cloakroom(["reload"])
        expect(none.ending.status != 0)
        expect(none.errors.contains("--control-socket PATH"), "\(none.errors)")
        let long = try await cloakroom(["reload", "--control-socket", "/" + String(repeating: "a", count: 107)])
        expect(long.ending.status != 0)
        expect(long.errors.contains("must have 1 to 107 bytes"), "\(long.errors)")
    }
}
