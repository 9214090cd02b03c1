import Foundation
import Glibc
import TestSupport
import Testing

@testable import MockAPI
@testable import cloakroom_demo

/// `cloakroom serve` with files and sockets of the real system.
@Suite("Serving", .serialized, .timeLimit(.minutes(3)))
struct ServeTests {
    @Test("Configuration, secret and certificate are read from files")
    func filesOnDisk() async throws {
        try await MockAPI.withServer(MockAPISettings(apiToken: "from-a-file")) { mock in
            let certificate = try DemoCertificate()
            defer { certificate.remove() }
            let directory = try TemporaryDirectory()
            try directory.write("from-a-file\n", to: "api-token")
            var configuration = GatewayYAML(upstream: mock.baseURL)
            configuration.apiTokenFile = directory.path(of: "api-token")
            configuration.certificate = (certificate.certificateFile, certificate.keyFile)
            try await GatewayProcess.running(configuration) { gateway in
                let tls = try #require(gateway.tls)
                let episodes = try await Curl()("\(tls)/episodes")
                #expect(episodes.status == 200)
                let ready = try await WebClient(gateway.admin).get("/ready")
                #expect(ready.status == 200)
                gateway.program.send(SIGTERM)
                let ending = try await gateway.program.ending()
                #expect(ending == ChildProgram.Ending(status: 0))
            }
        }
    }

    @Test("A port in use is named, and the exit status is 1")
    func portInUse() async throws {
        try await ScriptedServer.run { port, _ in
            let (gateway, demo) = (try Executables.cloakroom(), try Executables.demo())
            let directory = try TemporaryDirectory()
            var taken = GatewayYAML(upstream: "http://127.0.0.1:9000")
            taken.address = "127.0.0.1:\(port)"
            try directory.write(taken.yaml, to: "listener.yaml")
            taken.address = "127.0.0.1:0"
            taken.adminAddress = "127.0.0.1:\(port)"
            try directory.write(taken.yaml, to: "admin.yaml")
            let commands = [
                (gateway, ["serve", "--config", directory.path(of: "listener.yaml")]),
                (gateway, ["serve", "--config", directory.path(of: "admin.yaml")]),
                (demo, ["mock-api", "--port", "\(port)"]),
                (demo, ["--port", "\(port)", "--clear-port", "0", "--admin-port", "0", "--api-port", "0"]),
                (demo, ["demo", "--port", "0", "--clear-port", "0", "--admin-port", "0", "--api-port", "\(port)"]),
            ]
            for (program, command) in commands {
                let result = try await ChildProgram.run(program, command)
                #expect(result.ending == ChildProgram.Ending(status: 1), "\(command)")
                let lines = result.errors.split(separator: "\n")
                #expect(lines.count == 1, "\(result.errors)")
                #expect(result.errors.contains("127.0.0.1:\(port)"), "\(result.errors)")
                #expect(result.errors.lowercased().contains("address already in use"), "\(result.errors)")
            }
        }
    }

    @Test("An invalid certificate is named, and the exit status is 1")
    func brokenCertificate() async throws {
        let directory = try TemporaryDirectory()
        try directory.write("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n", to: "tls.crt")
        try directory.write("nonsense", to: "tls.key")
        var configuration = GatewayYAML(upstream: "http://127.0.0.1:9000")
        configuration.certificate = (directory.path(of: "tls.crt"), directory.path(of: "tls.key"))
        try directory.write(configuration.yaml, to: "gateway.yaml")
        let result = try await cloakroom(["serve", "--config", directory.path(of: "gateway.yaml")])
        #expect(result.ending == ChildProgram.Ending(status: 1))
        #expect(result.errors.contains("tls."), "\(result.errors)")
    }

    @Test("Every log line is one JSON object, and every request has one line")
    func accessLog() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = gateway.client
            _ = try await client.get("/episodes?quality=hd")
            _ = try await client.get("/videos/1")
            _ = try await client.signIn()
            _ = try await client.get("/videos/1")
            _ = try await client.get("/nothing")
            let odd = "GET /\"quoted\\\u{e9}\" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            _ = try await RawPeer.exchange(Array(odd.utf8), port: gateway.clear.port)
            gateway.program.send(SIGTERM)
            let ending = try await gateway.program.ending()
            #expect(ending.status == 0)

            let lines = gateway.program.lines
            for line in lines {
                let object = try? JSONSerialization.jsonObject(with: Data(line.utf8))
                #expect(object is [String: Any], "\(line)")
            }
            let access = gateway.program.logLines.filter { $0.logger == "access" }
            #expect(access.count == 6)
            let seen = access.map { "\($0.method ?? "") \($0.path ?? "") \($0.status ?? 0)" }
            for expected in [
                "GET /episodes 200", "GET /videos/1 401", "POST /auth 200", "GET /videos/1 200", "GET /nothing 404",
            ] {
                #expect(seen.count { $0 == expected } == 1, "\(expected)")
            }
        }
    }

    @Test("The API receives a trace context: a new one, or that of a trusted peer")
    func traceContext() async throws {
        let theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        for (trusted, set) in [(false, []), (true, ["trustedProxies=127.0.0.0/8"])] {
            try await GatewayProcess.running(set: set) { gateway, mock in
                let client = gateway.client
                _ = try await client.get("/episodes", [("traceparent", theirs)])
                _ = try await client.send(
                    "POST", "/auth",
                    [("traceparent", theirs), ("Authorization", WebClient.basic("jo@example.com", "secret"))])
                for path in ["/episodes", "/auth", "/user"] {
                    let request = try #require(mock.observations.snapshot().recent.first { $0.path == path })
                    let values = request.values(of: "traceparent")
                    #expect(values.count == 1)
                    let value = try #require(values.first)
                    #expect(value.wholeMatch(of: /00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}/) != nil)
                    #expect(value.hasPrefix(theirs.prefix(35)) == trusted, "\(path): \(value)")
                    #expect(!value.contains("b7ad6b7169203331"))
                    let trace = String(value.dropFirst(3).prefix(32))
                    try await gateway.program.waits(for: "the trace in the log") { program in
                        program.logLines.contains { $0.logger == "access" && $0.trace_id == trace }
                    }
                }
            }
        }
    }

    @Test("The metrics of a complete scenario pass promtool")
    func promtool() async throws {
        let promtool = try Executables.onPath("promtool", package: "prometheus")
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            _ = try await client.get("/episodes")
            _ = try await client.get("/videos/1")
            _ = try await client.signIn(password: "wrong")
            _ = try await client.signIn()
            _ = try await client.get("/videos/1")
            mock.faults.failNext("GET", "/videos/2", statuses: [503])
            _ = try await client.get("/videos/2")
            _ = try await client.get("/nothing")
            _ = try await RawPeer.exchange(Array("nonsense\r\n\r\n".utf8), port: gateway.clear.port)
            _ = try await client.send("DELETE", "/auth")
            let metrics = try await WebClient(gateway.admin).get("/metrics")
            #expect(metrics.status == 200)
            for name in [
                "cloakroom_sign_ins_total", "cloakroom_sessions_created_total", "cloakroom_sessions_ended_total",
                "cloakroom_rejections_total", "cloakroom_auth_decisions_total",
                "http_server_request_duration_seconds",
            ] {
                #expect(metrics.body.contains(name))
            }
            let directory = try TemporaryDirectory()
            try directory.write(metrics.body, to: "metrics")
            let result = try await ChildProgram.run(
                URL(fileURLWithPath: "/bin/sh"), ["-c", "exec '\(promtool.path)' check metrics < metrics"],
                directory: directory.url)
            #expect(result.ending.status == 0, "\(result.output)\(result.errors)")
        }
    }
}
