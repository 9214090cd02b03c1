import CloakroomCore
import CloakroomWire
import NIOCore
import TestSupport
import Testing

/// Each test has a first target that fails, and a second one that is selected only if the first one is not: its tier is
/// higher.
@Suite("Requests that are sent again", .serialized)
struct RetryTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
    private static let resets: [ScriptedUpstream.Step] = [.request, .close]

    /// Runs a gateway whose first target follows a script; the second one responds to all requests.
    /// - Parameter further: The scripts of further connections to the first target, if they follow others.
    private static func run(
        _ first: [ScriptedUpstream.Step], further: [[ScriptedUpstream.Step]] = [],
        second: [ScriptedUpstream.Step] = serves, isTimeStepped: Bool = false,
        configuration adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        _ body: (RunningGateway, _ second: ScriptedUpstream) async throws -> Void
    ) async throws {
        try await ScriptedUpstream.run([second]) { port, other in
            let setup = GatewaySetup().with(\.scripts, [first] + further).with(\.isTimeStepped, isTimeStepped)
            try await setup.configuration {
                $0.upstreams[0].targets.append(target(port, tier: 1))
                adjust(&$0)
            }
            .run { gateway in try await body(gateway, other) }
        }
    }

    private static func target(_ port: Int, tier: Int = 0) -> UpstreamTargetConfiguration {
        var target = UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: port))
        target.tier = tier
        return target
    }

    private static func response(_ status: String, _ fields: String = "") -> [ScriptedUpstream.Step] {
        [.request, .send("HTTP/1.1 \(status)\r\n\(fields)Content-Length: 2\r\n\r\nno"), .again]
    }

    // MARK: - Reset

    @Test("A GET whose connection is reset before a response is sent to another target, with the same request id")
    func reset() async throws {
        try await Self.run(Self.resets) { gateway, second in
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            expect(gateway.upstream.requests.count, equals: 1)
            expect(second.requests.map(\.line), equals: ["GET /public/a HTTP/1.1"])
            let ids = (gateway.upstream.requests + second.requests).map { $0["X-Request-Id"] }
            expect(ids.count == 2 && ids[0] != nil && ids[0] == ids[1])
            try await gateway.retries(1, "reset")
        }
    }

    @Test("Rule 64: a POST is sent once, whether or not it has a body", arguments: ["", "abc"])
    func post(body: String) async throws {
        try await Self.run(Self.resets) { gateway, second in
            try await expect(gateway.client().exchange(Ask.post(body: body)).problem, equals: "502 failed_request")
            expect(gateway.upstream.requests.count, equals: 1)
            expect(empty: second.requests)
            try await gateway.retries(1, "reset", "not_replayable")
        }
    }

    @Test("A configured method is sent again with its whole body, if that is buffered")
    func body() async throws {
        try await Self.run(Self.resets) {
            $0.upstreams[0].retry.methods = [.put]
        } _: { gateway, second in
            let put = "PUT /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
            let response = try await gateway.client().exchange(put + "hello")
            expect(response.text, equals: "ok")
            expect(gateway.upstream.requests.map(\.text), equals: ["hello"])
            expect(second.requests.map(\.text), equals: ["hello"])
        }
    }

    @Test("Rule 64: a body that exceeds limits.requestBuffer is not sent again")
    func largeBody() async throws {
        try await Self.run(Self.resets) {
            $0.upstreams[0].retry.methods = [.put]
            $0.limits.requestBuffer = 4
        } _: { gateway, second in
            let client = try await gateway.client()
            client.send("PUT /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nabcd")
            try await eventually("the first part") { gateway.upstream.received > 0 }
            client.send("efgh")
            try await expect(client.response().status, equals: 502)
            expect(gateway.upstream.requests.map(\.text), equals: ["abcdefgh"])
            expect(empty: second.requests)
            try await gateway.retries(1, "reset", "not_replayable")
        }
    }

    @Test("A route can disable retries, and so can the number of attempts", arguments: [true, false])
    func disabled(byRoute: Bool) async throws {
        try await Self.run(Self.resets) {
            if byRoute { $0.routes[0].retry = false } else { $0.upstreams[0].retry = RetryConfiguration(attempts: 1) }
        } _: { gateway, second in
            let response = try await gateway.client().exchange(Ask.get())
            expect(response.status, equals: 502)
            expect(gateway.upstream.requests.count, equals: 1)
            expect(empty: second.requests)
        }
    }

    @Test("A request is sent at most as often as attempts specifies", arguments: 2...4)
    func attempts(count: Int) async throws {
        try await Self.run(Self.resets, second: Self.resets) {
            $0.upstreams[0].retry = RetryConfiguration(attempts: count)
        } _: { gateway, second in
            try await expect(gateway.client().exchange(Ask.get()).status, equals: 502)
            expect(gateway.upstream.requests.count + second.requests.count, equals: count)
            expect(!second.requests.isEmpty)
            try await gateway.retries(count - 1, "reset")
            try await gateway.retries(1, "reset", "not_replayable")
        }
    }

    // MARK: - Statuses and time

    @Test("A status of retry.statuses is not forwarded: the request is sent to another target")
    func status() async throws {
        try await Self.run(Self.response("503 Service Unavailable")) {
            $0.upstreams[0].retry.statuses = [503]
        } _: { gateway, second in
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            expect(gateway.upstream.requests.count, equals: 1)
            expect(second.requests.count, equals: 1)
            try await gateway.retries(1, "status")
        }
    }

    @Test(
        "Other statuses are forwarded, and so is a configured one with Retry-After",
        arguments: [("503 Service Unavailable", "Retry-After: 1\r\n"), ("502 Bad Gateway", ""), ("500 Error", "")])
    func forwardedStatus(status: String, fields: String) async throws {
        try await Self.run(Self.response(status, fields)) {
            $0.upstreams[0].retry.statuses = [503]
        } _: { gateway, second in
            let response = try await gateway.client().exchange(Ask.get())
            expect("\(response.status)", equals: status.prefix(3))
            expect(response.text, equals: "no")
            expect(empty: second.requests)
        }
    }

    @Test("A target that does not respond within attemptTimeout loses the request to another one")
    func attemptTimeout() async throws {
        try await Self.run([.request], isTimeStepped: true) {
            $0.upstreams[0].retry.attemptTimeout = .seconds(3)
        } _: { gateway, second in
            let client = try await gateway.client(sending: Ask.get())
            _ = try await gateway.upstream.request()
            try await gateway.advance(.milliseconds(2_900))
            expect(empty: second.requests)
            try await gateway.advance(.milliseconds(200))
            try await expect(client.response().text, equals: "ok")
            expect(second.requests.count, equals: 1)
            try await gateway.upstream.closed()
            try await gateway.retries(1, "attempt_timeout")
        }
    }

    @Test("All attempts together have the time for one response head")
    func sharedHeadTimeout() async throws {
        try await Self.run([.request], second: [.request], isTimeStepped: true) {
            $0.upstreams[0].retry.attemptTimeout = .seconds(3)
            $0.timeouts.responseHead = .seconds(5)
        } _: { gateway, second in
            let client = try await gateway.client(sending: Ask.get())
            _ = try await gateway.upstream.request()
            try await gateway.advance(.milliseconds(3_100))
            _ = try await second.request()
            try await gateway.advance(.milliseconds(1_800))
            expect(empty: client.unread)
            try await gateway.advance(.milliseconds(200))
            try await expect(client.response().status, equals: 504)
        }
    }

    @Test("The connection of a response that is not forwarded is closed if its body does not end within a second")
    func discardedResponse() async throws {
        let script: [ScriptedUpstream.Step] = [.request, .send("HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nno")]
        try await Self.run(script, isTimeStepped: true) {
            $0.upstreams[0].retry.statuses = [503]
        } _: { gateway, _ in
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            try await gateway.advance(.milliseconds(1_100))
            try await gateway.upstream.closed()
        }
    }

    @Test("A spent budget ends the retries: failures are passed on and counted")
    func budget() async throws {
        try await Self.run(Self.resets) {
            // The budget starts with 10 retries.
            $0.upstreams[0].retry = RetryConfiguration(budget: 0.001, perSecond: 0)
            $0.upstreams[0].eject.most = 0
        } _: { gateway, second in
            let client = try await gateway.client()
            var statuses: [Int] = []
            for _ in 0..<13 { statuses.append(try await client.exchange(Ask.get()).status) }
            expect(statuses, equals: Array(repeating: 200, count: 10) + Array(repeating: 502, count: 3))
            expect(gateway.upstream.requests.count, equals: 13)
            expect(second.requests.count, equals: 10)
            try await gateway.retries(10, "reset")
            try await gateway.retries(3, "reset", "no_budget")
        }
    }

    // MARK: - Connections

    /// A policy, how many of three unreachable targets are tried before a fourth one, and whether the request succeeds.
    private static let connectCases: [(RetryConfiguration, route: Bool, retries: Int, status: Int)] = [
        (RetryConfiguration(), true, 2, 502), (RetryConfiguration(), false, 0, 502),
        (RetryConfiguration(attempts: 1), true, 0, 502), (RetryConfiguration(attempts: 2), true, 1, 502),
        (RetryConfiguration(attempts: 4), true, 3, 200),
    ]

    @Test("Targets are tried for a connection as the retry policy specifies", arguments: connectCases.indices)
    func connect(index: Int) async throws {
        let (policy, isPermitted, retries, status) = Self.connectCases[index]
        var unreachable: [Int] = []
        for _ in 0..<3 { unreachable.append(try await ScriptedServer.rejectingPort()) }
        let ports = unreachable
        try await GatewaySetup(Self.serves).configuration {
            $0.upstreams[0].targets[0].tier = 3
            for (tier, port) in ports.enumerated() { $0.upstreams[0].targets.append(Self.target(port, tier: tier)) }
            $0.upstreams[0].retry = policy
            $0.routes[0].retry = isPermitted
        }
        .run { gateway in
            try await expect(gateway.client().exchange(Ask.post(body: "abc")).status, equals: status)
            expect(gateway.upstream.requests.count, equals: (status == 200 ? 1 : 0))
            try await gateway.retries(retries, "connect")
            try await gateway.retries(status == 502 && retries > 0 ? 1 : 0, "connect", "not_replayable")
        }
    }

    @Test(
        "A target that is killed loses no GET on a reused connection, also if it resets the new connection after it",
        arguments: [false, true])
    func killed(hasBacklog: Bool) async throws {
        let first: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .request, .close]
        try await Self.run(first, further: hasBacklog ? [Self.resets] : []) {
            $0.upstreams[0].retry = RetryConfiguration(attempts: 2)
        } _: { gateway, second in
            let client = try await gateway.client()
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            if !hasBacklog { try await gateway.upstream.stopListening() }
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            expect(gateway.upstream.requests.count, equals: (hasBacklog ? 3 : 2))
            expect(second.requests.count, equals: 1)
            try await gateway.retries(1, "stale")
            try await gateway.retries(1, hasBacklog ? "reset" : "connect")
        }
    }

    @Test("A retry is not spent on a target whose back-off has ended, if another target is usable")
    func noProbe() async throws {
        let port = try await ScriptedServer.rejectingPort()
        let gate = Gate()
        try await Self.run([.request, .wait(gate), .close], isTimeStepped: true) {
            // The unreachable target comes first, then the one that resets, then the one that serves.
            $0.upstreams[0].targets[0].tier = 1
            $0.upstreams[0].targets[1].tier = 2
            $0.upstreams[0].targets.append(Self.target(port, tier: 0))
        } _: { gateway, second in
            let client = try await gateway.client(sending: Ask.get())
            _ = try await gateway.upstream.request()
            try await gateway.retries(1, "connect")
            // The back-off takes at most a second.
            try await gateway.advance(.milliseconds(1_300))
            gate.open()
            try await expect(client.response().text, equals: "ok")
            expect(second.requests.count, equals: 1)
            try await gateway.retries(1, "reset")
            try await gateway.retries(1, "connect")
        }
    }

    // MARK: - Uploads

    @Test("The time for the response head begins at the end of the request, however long its body takes")
    func slowUpload() async throws {
        let gate = Gate()
        try await GatewaySetup([.head, .body(6), .wait(gate), .send(Reply.ok)]).steppedTime().configuration {
            $0.timeouts.responseHead = .seconds(20)
            $0.limits.requestBuffer = 0
        }
        .run { gateway, client in
            client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n")
            for part in ["ab", "cd", "ef"] {
                try await gateway.advance(.seconds(9))
                client.send(part)
            }
            try await eventually("the body") { gateway.upstream.requests.first?.text == "abcdef" }
            try await gateway.advance(.milliseconds(150))
            gate.open()
            try await expect(client.response().text, equals: "ok")
            // The gauge is set once a second.
            try await gateway.advance(.seconds(1))
            // The client took 27 s, the target 150 ms.
            let estimate = try await eventually("the estimate") { gateway.estimate.flatMap { $0 > 0 ? $0 : nil } }
            #expect(estimate < 3)
        }
    }
}

extension RunningGateway {
    /// Waits until the metrics contain a number of retries.
    fileprivate func retries(_ count: Int, _ reason: String, _ outcome: String = "sent") async throws {
        let series =
            "cloakroom_upstream_retries_total{outcome=\"\(outcome)\",reason=\"\(reason)\",upstream=\"api\"}"
        guard count > 0 else {
            let lines = metrics.split(separator: "\n").filter { $0.hasPrefix(series) }
            expect(lines.allSatisfy { $0.hasSuffix(" 0") }, "\(lines)")
            return
        }
        try await metric("\(series) \(count)")
    }

    /// The estimated time to a response head of the only target, in seconds.
    fileprivate var estimate: Double? {
        metrics.split(separator: "\n").first { $0.hasPrefix("cloakroom_upstream_estimate_seconds{") }
            .flatMap { $0.split(separator: " ").last }.flatMap { Double($0) }
    }
}
