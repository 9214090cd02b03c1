import CloakroomProxy
import Glibc
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Supervision of targets by a running gateway", .serialized)
struct UpstreamSupervisorTests {
    private static let ok = ScriptedServer.Act.bytes(Reply.ok)
    private let log = RecordedLog()
    private let gate = Gate()

    private static func health(
        interval: Duration = .milliseconds(500), timeout: Duration = .seconds(10)
    ) -> HealthCheckConfiguration {
        HealthCheckConfiguration(
            probe: .http(path: "/health"), interval: interval, timeout: timeout, rise: 3, fall: 2)
    }

    private func setUp(
        _ ports: [Int], _ health: HealthCheckConfiguration = Self.health(), log: RecordedLog = RecordedLog()
    ) -> GatewaySetup {
        GatewaySetup().with(\.logger, log.logger).configuration {
            $0.upstreams[0].targets = ports.map { .http("127.0.0.1", $0) }
            $0.upstreams[0].health = health
        }
    }

    private func condition(_ gateway: RunningGateway, _ index: Int, _ wanted: TargetCondition) async throws {
        try await eventually("target \(index) \(wanted)") {
            gateway.server.upstreamStatus()[0].targets[index].condition == wanted
        }
    }

    private func requests(_ server: ScriptedServer, areChecks: Bool) -> Int {
        server.requests.filter { $0.hasPrefix("GET /health ") == areChecks }.count
    }

    @Test("A check without a descriptor of the gateway has no result; the first round ends when all targets have one")
    func noDescriptors() async throws {
        let lookups = Atomic(0)
        let resolver = HostResolver { _, port in
            let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
            guard lookups.wrappingAdd(1, ordering: .relaxed).newValue > 2 else {
                return eventLoop.makeFailedFuture(IOError(errnoCode: EMFILE, reason: "socket"))
            }
            return eventLoop.makeCompletedFuture { [try SocketAddress(ipAddress: "127.0.0.1", port: port)] }
        }
        try await ScriptedServer.run([Self.ok]) { port, server in
            server.respond(to: "GET /health", with: ScriptedServer.json("{}"))
            try await setUp([port], log: log).with(\.resolver, resolver).configuration {
                $0.upstreams[0].targets = [.http("api.test", port)]
            }.run { gateway in
                try await eventually("the first round") { gateway.server.isReady }
                #expect(lookups.load(ordering: .relaxed) > 2)
                try await condition(gateway, 0, .up)
            }
        }
        expect(empty: log.lines("event", "upstream_check_failed"))
        expect(empty: log.lines("event", "upstream_down"))
    }

    @Test("A target that fails its check gets no request, and gets requests again after `rise` passed checks")
    func failingTarget() async throws {
        try await ScriptedServer.run([Self.ok]) { first, good in
            try await ScriptedServer.run([Self.ok]) { second, bad in
                good.respond(to: "GET /health", with: ScriptedServer.json("{}"))
                bad.respond(to: "GET /health", with: ScriptedServer.json("{}", status: "503 Service Unavailable"))
                try await setUp([first, second], log: log).run { gateway in
                    // The first result alone decides.
                    try await condition(gateway, 1, .down)
                    try await eventually("the first checks") { gateway.server.isReady }
                    let client = try await gateway.client()
                    for _ in 0..<40 { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
                    expect(requests(good, areChecks: false) == 40 && requests(bad, areChecks: false) == 0)
                    try await gateway.metric(
                        #"cloakroom_upstream_state{peer="",state="down",target="http://127.0.0.1:\#(second)","#
                            + #"upstream="api"} 1"#)
                    let before = requests(bad, areChecks: true)
                    bad.respond(to: "GET /health", with: ScriptedServer.json("{}"))
                    try await condition(gateway, 1, .up)
                    #expect(requests(bad, areChecks: true) >= before + 3)
                    try await eventually("a request at the target that returned") {
                        let text = try await client.exchange(Ask.get()).text
                        expect(text, equals: "ok")
                        return requests(bad, areChecks: false) > 0
                    }
                    try await eventually("the line") { log.lines("event", "upstream_up").count == 1 }
                }
            }
        }
        expect(log.lines("event", "upstream_check_failed").map { $0["reason"] }, equals: ["status 503"])
        expect(log.lines("event", "upstream_down").count, equals: 1)
        expect(empty: log.lines("event", "upstream_panic"))
    }

    @Test("`fall` failed checks put a target down that was up, and a running request is not cut")
    func falls() async throws {
        let script: [ScriptedUpstream.Step] = [.request, .wait(gate), .send(Reply.ok)]
        // The first connection is a check, the second the request of the client, the others are checks.
        let passed: [ScriptedUpstream.Step] = [.request, .send(Reply.noContent), .close]
        let scripts = [passed, script, [.request, .close]]
        try await ScriptedUpstream.run(scripts) { port, upstream in
            try await setUp([port], Self.health(interval: .seconds(3))).run { gateway in
                try await eventually("the first check") { gateway.server.isReady }
                let client = try await gateway.client(sending: Ask.get())
                try await eventually("the request") { upstream.connections.count > 1 }
                try await condition(gateway, 0, .down)
                // The first check passed, and two failed.
                #expect(upstream.connections.count >= 4)
                gate.open()
                try await expect(client.response().text, equals: "ok")
            }
        }
    }

    @Test("The gateway is ready when each target was checked once; if none passes, it is logged and all are used")
    func start() async throws {
        let notFound = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        let scripts: [[ScriptedUpstream.Step]] = [
            [.request, .wait(gate), .send(notFound), .close], [.request, .send(Reply.ok), .again],
        ]
        try await ScriptedUpstream.run(scripts) { port, upstream in
            let health = Self.health(interval: .seconds(3_600), timeout: .seconds(60))
            try await setUp([port], health, log: log).run { gateway in
                _ = try await upstream.request()
                try await Task.sleep(for: .milliseconds(1_200))
                expect(!gateway.server.isReady)
                gate.open()
                try await eventually("the first check") { gateway.server.isReady }
                try await condition(gateway, 0, .down)
                try await gateway.metric(#"cloakroom_upstream_panic{upstream="api"} 1"#)
                try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            }
        }
        let lines = log.lines("event", "upstream_checks_failed")
        expect(lines.map { $0["reason"] }, equals: ["each target: status 404"])
        expect(lines.first?["hint"]?.contains("health.path"), equals: true)
        expect(log.lines("event", "upstream_panic").map { $0["outcome"] }, equals: ["started"])
    }

    @Test("A gateway without health checks is ready at once")
    func unchecked() async throws {
        try await GatewaySetup().run { gateway in
            try await eventually("the first tick") { gateway.server.isReady }
        }
    }

    @Test("A new address of a host name gets no request before its first check has passed")
    func newAddress() async throws {
        let script: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
        try await ScriptedUpstream.run([script]) { port, _ in
            let place = try SocketAddress(ipAddress: "127.0.0.2", port: port)
            let checked: [[ScriptedUpstream.Step]] = [[.request, .wait(gate), .send(Reply.ok), .close], script]
            try await ScriptedUpstream.run(checked, at: place) { _, other in
                let one = try SocketAddress(ipAddress: "127.0.0.1", port: port)
                let names = FakeNames([one])
                let health = Self.health(interval: .seconds(3_600), timeout: .seconds(60))
                let setup = GatewaySetup().with(\.resolver, names.resolver).configuration {
                    $0.upstreams[0].targets = [.http("api.test", port)]
                    $0.upstreams[0].health = health
                    $0.upstreams[0].dns.interval = .milliseconds(500)
                }
                try await setup.run { gateway, client in
                    try await expect(client.exchange(Ask.get()).text, equals: "ok")
                    try await eventually("the address as a target") {
                        gateway.server.upstreamStatus()[0].targets.first?.peer != nil
                    }
                    names.change(to: [one, place])
                    try await expect(other.request().line, equals: "GET /health HTTP/1.1")
                    for _ in 0..<40 { try await expect(client.exchange(Ask.get()).text, equals: "ok") }
                    expect(other.connections.count, equals: 1)
                    gate.open()
                    try await eventually("a request at the new address") {
                        let text = try await client.exchange(Ask.get()).text
                        expect(text, equals: "ok")
                        return other.requests.contains { $0.line.hasPrefix("GET /public/a ") }
                    }
                    expect(!gateway.server.upstreamStatus()[0].isPanicking)
                }
            }
        }
    }

    @Test("The series of targets and upstreams that a reload removes are withdrawn")
    func withdrawn() async throws {
        let setup = GatewaySetup().configuration {
            $0.upstreams[0].targets += [.http("127.0.0.1", 9)]
            $0.upstreams.append(UpstreamConfiguration(name: "other", targets: [.http("127.0.0.1", 8)]))
        }
        try await setup.run { gateway in
            let hasSeries = { (label: String) in
                gateway.metrics.split(separator: "\n").contains { $0.hasPrefix("cloakroom_") && $0.contains(label) }
            }
            let other = #"upstream="other""#
            let target = #"target="http://127.0.0.1:9""#
            try await gateway.metric(
                #"cloakroom_upstream_state{peer="",state="up",target="http://127.0.0.1:8",upstream="other"} 1"#)
            expect(hasSeries(target))
            try await gateway.replace {
                $0.upstreams.removeLast()
                $0.upstreams[0].targets.removeLast()
            }
            try await eventually("no series of the upstream and the target") {
                !hasSeries(other) && !hasSeries(target)
            }
            expect(gateway.metrics.contains(#"cloakroom_upstream_panic{upstream="api"} 0"#))
            try await gateway.replace { _ in }
            try await eventually("the series again") {
                hasSeries(target) && hasSeries(other)
            }
        }
    }
}
