import CloakroomProxy
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Snapshots that are replaced while the gateway serves", .serialized, .timeLimit(.minutes(1)))
struct ConfigurationReloadTests {
    private let gate = Gate()

    @Sendable private static func rename(_ configuration: inout GatewayConfiguration) throws {
        configuration.routes = [
            Route(name: "renamed", methods: ["GET"], pattern: try PathPattern("/new/*"), requiresAuthorization: false)
        ]
    }

    @Test("An established connection uses the new routes from its next request on")
    func keptConnection() async throws {
        try await Scenario(
            "kept", .ask(Ask.get("/public/a"), 200), .ask(Ask.get("/new/a"), 404, has: ["Connection"]),
            .replace(Self.rename), .ask(Ask.get("/public/a"), 404, has: ["Connection"]), .ask(Ask.get("/new/a"), 200),
            metrics: [#"cloakroom_auth_decisions_total{decision="public",route="renamed"} 1"#]
        ).run()
    }

    @Test("A request in flight finishes with its old snapshot, which is released only then")
    func underWay() async throws {
        let retired = Gate()
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again], [.request, .send(Reply.ok), .again])
            .run { gateway, client in
                client.send(Ask.get("/public/a"))
                _ = try await gateway.upstream.request()
                try await gateway.replace(onRetired: { retired.open() }, Self.rename)
                // Other requests use the new routes meanwhile.
                let other = try await gateway.client()
                try await expect(other.exchange(Ask.get("/new/a")).status, equals: 200)
                expect(!retired.isOpen)
                gate.open()
                try await expect(client.response().text, equals: "ok")
                try await eventually("the release of the old snapshot") { retired.isOpen }
                try await expect(client.exchange(Ask.get("/public/a")).status, equals: 404)
                try await gateway.metric(#"cloakroom_auth_decisions_total{decision="public",route="public"} 1"#)
                try await gateway.metric(#"cloakroom_auth_decisions_total{decision="public",route="renamed"} 1"#)
                // The upstream connection is closed with the old snapshot; the new one stays open.
                try await eventually("the old connection's end") { gateway.upstream.connections[0].isClosed }
                expect(!gateway.upstream.connections[1].isClosed)
                try await gateway.metric(#"cloakroom_upstream_connections{state="idle",upstream="api"} 1"#)
                try await gateway.metric(#"cloakroom_upstream_connections{state="active",upstream="api"} 0"#)
            }
    }

    @Test("Idle upstream connections are closed at once if no request is in flight")
    func idle() async throws {
        let retired = Gate()
        try await GatewaySetup.serving.run { gateway in
            try await expect(gateway.client().exchange(Ask.get("/public/a")).status, equals: 200)
            try await gateway.metric(#"cloakroom_upstream_connections{state="idle",upstream="api"} 1"#)
            try await gateway.replace(onRetired: { retired.open() }) { _ in }
            try await eventually("the release of the old snapshot") { retired.isOpen }
            try await eventually("the old connection's end") { gateway.upstream.connections[0].isClosed }
            try await expect(gateway.client().exchange(Ask.get("/public/a")).status, equals: 200)
        }
    }

    @Test("Twenty replacements under load: every request gets a response, from the old or the new snapshot")
    func underLoad() async throws {
        try await GatewaySetup.serving.run { gateway in
            let isOver = Gate()
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        let client = try await gateway.client()
                        var count = 0
                        // At least once, also if all replacements are made before.
                        repeat {
                            try await expect(client.exchange(Ask.get("/public/a")).status, equals: 200)
                            count += 1
                        } while !isOver.isOpen
                        return count
                    }
                }
                let retired = Mutex(0)
                for _ in 0..<20 {
                    try await gateway.replace(onRetired: { retired.withLock { $0 += 1 } }) { _ in }
                }
                isOver.open()
                var total = 0
                for try await count in group { total += count }
                #expect(total >= 8)
                try await eventually("the release of the old snapshots") { retired.withLock { $0 } == 20 }
                try await gateway.metric(#"cloakroom_auth_decisions_total{decision="public",route="public"} \#(total)"#)
                try await gateway.metric(#"http_server_active_requests{http_request_method="GET",url_scheme="http"} 0"#)
            }
        }
    }

    private static let gone = StreamChange("no route", ends: true) { $0.routes.remove(at: 0) }

    private static let changes = [
        gone,
        StreamChange("other messages", ends: false) { $0.routes[0].messages = [.notFound: "There is nothing."] },
        StreamChange("other limits", ends: false) { $0.limits.body = 1 },
        StreamChange("another idle timeout", ends: true) { $0.routes[0].stream.idle = .seconds(7) },
        StreamChange("a protected route", ends: true) { $0.routes[0].requiresAuthorization = true },
        StreamChange("another upstream", ends: true) { $0.upstreams[0].preserveHost.toggle() },
    ]

    @Test(
        "An endless stream continues if its route is unchanged, and ends otherwise",
        arguments: changes)
    func stream(change: StreamChange) async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, sending: Ask.get("/public/a"))
            let upstream = try await server.requested()
            upstream.send(Reply.eventStream)
            _ = try await client.head()
            try await gateway.replace(change.make)
            if change.endsStream {
                try await client.closed()
                try await upstream.closed()
            } else {
                upstream.send("9\r\ndata: 1\n\n\r\n")
                try await expect(client.text(14), equals: "9\r\ndata: 1\n\n\r\n")
            }
        }
    }

    @Test("Streams keep 16 earlier snapshots at most: the next replacement ends those of the oldest")
    func oldestStreams() async throws {
        try await Tunnel.gateway { gateway, server in
            var clients: [RawPeer] = []
            for index in 0...16 {
                clients.append(try await RawPeer.connect(port: gateway.port, sending: Ask.get("/public/a")))
                try await server.requested(index).send(Reply.eventStream)
                _ = try await clients[index].head()
                expect(!clients[0].isClosed)
                try await gateway.replace { _ in }
            }
            try await clients[0].closed()
            // The snapshot that this replaces has no stream.
            try await gateway.replace { _ in }
            try await server.peer(1).send("9\r\ndata: 1\n\n\r\n")
            try await expect(clients[1].text(14), equals: "9\r\ndata: 1\n\n\r\n")
            expect(clients.dropFirst().allSatisfy { !$0.isClosed })
        }
    }

    @Test(
        "Rule 34: a stream ends when tokensFor no longer lists its upstream, unless its route sends no token",
        arguments: [true, false])
    func tokensForWithdrawn(sendsToken: Bool) async throws {
        try await Tunnel.gateway(
            configuration: {
                $0.upstreams.append(UpstreamConfiguration(name: "orders", targets: $0.upstreams[0].targets))
                $0.accounts.tokensFor = [1]
                $0.routes[2].action = .forward(upstream: 1, nil)
                $0.routes[2].inject = sendsToken ? .bearer : []
            }
        ) { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, sending: Ask.get("/private/a", Ask.cookie))
            let upstream = try await server.requested()
            upstream.send(Reply.eventStream)
            _ = try await client.head()
            try await gateway.replace { $0.accounts.tokensFor = [] }
            if sendsToken {
                try await client.closed()
                try await upstream.closed()
            } else {
                upstream.send("9\r\ndata: 1\n\n\r\n")
                try await expect(client.text(14), equals: "9\r\ndata: 1\n\n\r\n")
            }
        }
    }

    @Test("A stream requested before the replacement ends as soon as it begins", arguments: [true, false])
    func askedForBefore(isWebSocket: Bool) async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(isWebSocket ? Handshake.request() : Ask.get("/public/a"))
            let upstream = try await server.requested()
            try await gateway.replace(Self.gone.make)
            upstream.send(isWebSocket ? Handshake.consent : Reply.eventStream)
            try await client.inputEnded()
            try await upstream.closed()
        }
    }

    @Test("A WebSocket whose route was removed gets a Close frame on both sides (RFC 6455 §7.4.1)")
    func webSocket() async throws {
        try await Tunnel.open { tunnel in
            try await tunnel.gateway.replace(Self.gone.make)
            expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1001)
            expect(Frame.maskedCloseCode(try await tunnel.upstream.rest()), equals: 1001)
        }
    }

    @Test("Off-loop work for a disconnected client keeps its snapshot until it finishes")
    func workGoesOn() async throws {
        let (started, retired) = (Gate(), Gate())
        let endpoints = FakeEndpoints { _ in
            started.open()
            await gate.passed()
            return AccountResponse(status: 200)
        }
        try await GatewaySetup().with(\.endpoints, endpoints).run { gateway, client in
            client.send(Ask.get("/auth"))
            try await eventually("the work") { started.isOpen }
            try await gateway.replace(onRetired: { retired.open() }) { _ in }
            try await client.close()
            try await gateway.metric(#"http_server_active_requests{http_request_method="GET",url_scheme="http"} 0"#)
            expect(!retired.isOpen)
            gate.open()
            try await eventually("the release of the old snapshot") { retired.isOpen }
        }
    }

    @Test("A gateway that is stopping rejects a new snapshot")
    func stopping() async throws {
        try await GatewaySetup([.request]).run { gateway in
            await gateway.beginDrain()
            try await gateway.stopped()
            await #expect(throws: ListenerError.self) { () async throws in try await gateway.replace { _ in } }
        }
    }

    @Test("New certificates apply to new connections; invalid ones change nothing at all")
    func certificates() async throws {
        let directory = try CertificateFixture()
        let old = try directory.server("old", names: ["old.test"])
        let new = try directory.server("new", names: ["new.test"])
        let setup = GatewaySetup.serving.configuration {
            $0.listeners[0].tls = old.listener
            $0.listeners[0].http2 = false
        }
        try await setup.run { gateway in
            let before = try await TLSClient.connect(port: gateway.port, isGreeted: false)
            expect(before.serverName, equals: "old.test")
            await #expect(throws: ListenerError.self) { () async throws in
                try await gateway.replace { configuration in
                    try Self.rename(&configuration)
                    configuration.listeners[0].tls = ListenerTLSConfiguration(
                        certificateFile: new.certificateFile, keyFile: old.keyFile)
                }
            }
            expect(gateway.server.certificates().map(\.names), equals: [["old.test"]])
            try await gateway.replace {
                $0.listeners[0].tls = new.listener
            }
            expect(!before.isClosed)
            before.send(Ask.get("/public/a"))
            try await eventually("a response on the established connection") { before.text.contains("200 OK") }
            let after = try await TLSClient.connect(port: gateway.port, isGreeted: false)
            expect(after.serverName, equals: "new.test")
            expect(gateway.server.certificates().map(\.names), equals: [["new.test"]])
            try await after.close()
            try await before.close()
        }
    }

    @Test("If client certificate requirements change, connected clients have to reconnect")
    func otherDemands() async throws {
        let directory = try CertificateFixture()
        let tls = try directory.server("server", names: ["a.test"]).listener
        let setup = GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again]).configuration {
            $0.listeners[0].tls = tls
            $0.listeners[0].http2 = false
        }
        try await setup.run { gateway in
            let idle = try await TLSClient.connect(port: gateway.port, isGreeted: false)
            let busy = try await TLSClient.connect(port: gateway.port, isGreeted: false)
            // Only a part of a request head has arrived; the remainder follows later.
            let started = try await TLSClient.connect(port: gateway.port, isGreeted: false)
            started.send(Ask.get("/nowhere") + "GET /nowh")
            try await eventually("the first response") { started.text.contains("404") }
            busy.send(Ask.get("/public/a"))
            _ = try await gateway.upstream.request()
            try await gateway.replace { $0.listeners[0].tls?.minimumVersion = .tls13 }
            try await eventually("the idle connection's end") { idle.isClosed }
            expect(!busy.isClosed)
            gate.open()
            try await eventually("the busy connection's end") { busy.isClosed }
            expect(busy.text.contains("200 OK"))
            expect(busy.text.contains("Connection: close"))
            expect(!started.isClosed)
            started.send("ere HTTP/1.1\r\nHost: gateway.test\r\n\r\n")
            try await eventually("the end of the connection with an incomplete head") { started.isClosed }
            expect(started.text.contains("Connection: close"))
        }
    }
}
