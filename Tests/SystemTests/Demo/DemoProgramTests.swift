import Foundation
import Glibc
import TestSupport
import Testing

/// The program `cloakroom-demo`: its commands, and how the demo starts and ends.
@Suite("The program of the demo", .serialized, .timeLimit(.minutes(3)))
struct DemoProgramTests {
    @Test("A mistake in the command line is exit status 64, and nothing is started")
    func usage() async throws {
        for arguments in [
            ["--port", "x"], ["demo", "--port", "65536"], ["--issuer", "https://id.example.com"],
            ["mock-api", "--port", "65536"], ["mock-provider", "--port", "65536"], ["serve"],
        ] {
            let result = try await ChildProgram.run(try Executables.demo(), arguments)
            expect(result.ending, equals: ChildProgram.Ending(status: 64), "\(result.output)\(result.errors)")
            expect(result.output == "" && result.errors.contains("Usage: cloakroom-demo"), "\(result.errors)")
        }
        let unknown = try await ChildProgram.run(try Executables.demo(), ["mok-api"])
        let message = "Error: unknown command 'mok-api' (write one of: demo, mock-api, mock-provider)\n"
        expect(unknown.errors.hasPrefix(message), "\(unknown.errors)")
    }

    @Test("Without the gateway's program the demo names it and the remedy")
    func missingGateway() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "cloakroom")
        let result = try await ChildProgram.run(
            try Executables.demo(), RunningDemo.onFreePorts + ["--gateway", path],
            environment: ["TMPDIR": directory.url.path])
        expect(result.ending, equals: ChildProgram.Ending(status: 1))
        expect(
            result.errors,
            equals: "Error: the gateway \(path) is not a program (build it: deploy/build.sh, or write --gateway PATH)\n"
        )
        try expect(FileManager.default.contentsOfDirectory(atPath: directory.url.path), equals: [])
    }

    @Test("The demo's API and files end with it, whether by a signal or not", arguments: [SIGTERM, SIGKILL])
    func end(signal: Int32) async throws {
        let directory = try TemporaryDirectory()
        func files() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: directory.url.path) }
        try await RunningDemo.running(environment: ["TMPDIR": directory.url.path]) { demo in
            try expect(files().count, equals: 1)
            await expect(!RawPeer.isRejected(port: demo.api.port))
            demo.program.send(signal)
            _ = try await demo.program.ending()
            try await eventually("the files are removed") { try files().isEmpty }
            try await eventually("the API has ended") { await RawPeer.isRejected(port: demo.api.port) }
        }
    }

    @Test("The demo prints its addresses once, not again at a reload of the configuration")
    func reload() async throws {
        try await RunningDemo.running { demo in
            for number in 1...2 {
                demo.program.send(SIGHUP)
                _ = try await demo.program.waits(for: "reload \(number)") { program in
                    program.lines.count { $0.contains("configuration reloaded") } == number ? true : nil
                }
            }
            demo.program.send(SIGTERM)
            // The process that prints them ends after the gateway.
            try await eventually("the API has ended") { await RawPeer.isRejected(port: demo.api.port) }
            expect(demo.program.lines.count { $0.hasPrefix("Cloakroom is running.") }, equals: 1)
        }
    }

    @Test("mock-api prints its address, requires its API token, and exits with 0 on SIGTERM")
    func mockAPI() async throws {
        let program = try Executables.demo()
        try await ChildProgram.running(program, ["mock-api", "--port", "0", "--api-token", "t0ken"]) { program in
            let address = try await program.waits(for: "its address") { program in
                program.lines.first { $0.hasPrefix("mock API") }?.split(separator: " ").last.map(String.init)
            }
            let client = WebClient(address)
            let rejected = try await client.get("/episodes")
            expect(rejected.status, equals: 403)
            let served = try await client.get("/episodes", [("X-API-TOKEN", "t0ken")])
            expect(served.status, equals: 200)
            // Recorded requests are not exposed unless the option for it is set.
            let hidden = try await client.get("/__mock/requests", [("X-API-TOKEN", "t0ken")])
            expect(hidden.status, equals: 404)
            program.send(SIGTERM)
            let ending = try await program.ending()
            expect(ending, equals: ChildProgram.Ending(status: 0))
        }
    }

    @Test("mock-provider prints its issuer, is controlled only if the option is set, and exits with 0 on SIGTERM")
    func mockProvider() async throws {
        let program = try Executables.demo()
        for isControlled in [false, true] {
            let arguments = ["mock-provider", "--port", "0"] + (isControlled ? ["--expose-control"] : [])
            try await ChildProgram.running(program, arguments) { program in
                let issuer = try await program.waits(for: "its issuer") { program in
                    program.lines.first { $0.hasPrefix("mock provider") }?.split(separator: " ").last.map(String.init)
                }
                let client = WebClient(issuer)
                let document = try await client.get("/.well-known/openid-configuration")
                expect(document.status == 200 && document.body.contains(#""issuer":"\#(issuer)""#))
                let script = try await client.send("PUT", "/__mock/script", body: #"{"subject":"mia"}"#)
                expect(script.status, equals: (isControlled ? 200 : 404))
                program.send(SIGTERM)
                try await expect(program.ending(), equals: ChildProgram.Ending(status: 0))
            }
        }
    }
}
