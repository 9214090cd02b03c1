import CloakroomTelemetry
import NIOCore
import NIOHPACK
import NIOHTTP2
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("HTTP/2 connections of a pool", .serialized)
struct UpstreamHTTP2PoolTests {
    private static let gauge = "cloakroom_upstream_http2_streams{upstream=\"api\"}"
    private let held = Held()

    /// Waits until nothing is left of all requests.
    private func atRest(_ gateway: RunningGateway) async throws {
        try await gateway.metric("\(Self.gauge) 0")
        try await gateway.metric("cloakroom_upstream_pending_requests{upstream=\"api\"} 0")
        try await eventually("no request in flight") {
            let lines = gateway.metrics.split(separator: "\n").filter { $0.hasPrefix("cloakroom_upstream_in_flight{") }
            return !lines.isEmpty && lines.allSatisfy { $0.hasSuffix(" 0") }
        }
    }

    /// Collects streams that get no response.
    private final class Held: Sendable {
        let streams = Mutex<[(FrameServer.Link, UInt32)]>([])
        var count: Int { streams.withLock { $0.count } }

        func respond() {
            let held = streams.withLock { streams in
                defer { streams = [] }
                return streams
            }
            for (link, id) in held { link.respond(id) }
        }

        /// Holds requests for `/public/slow`.
        func script() -> FrameServer.Script {
            { link, event in
                switch event {
                case .headers(let id, let head, ends: true) where head.first(name: ":path") == "/public/slow":
                    self.streams.withLock { $0.append((link, id)) }
                case .headers(let id, _, ends: true), .data(let id, _, ends: true): link.respond(id)
                default: break
                }
            }
        }
    }

    @Test("1,000 cancelled requests leave nothing behind, and the connection is used further")
    func cancelled() async throws {
        try await GatewaySetup().http2().run(against: held.script()) { gateway, server in
            for round in 0..<20 {
                let client = try await gateway.http2()
                let ids = Array(stride(from: 1, to: 101, by: 2)) as [UInt32]
                for id in ids { client.send(.headers(id, .get("/public/slow"))) }
                try await eventually("the requests of round \(round)") { held.count == ids.count }
                if round % 2 == 0 { client.send(ids.map { .reset($0) }) } else { try await client.close() }
                try await gateway.metric("\(Self.gauge) 0")
                held.respond()
                if round % 2 == 0 { try await client.close() }
            }
            try await atRest(gateway)
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            expect(server.connectionCount, equals: 1)
            try await gateway.connections(active: 0, idle: 1)
        }
    }

    @Test("Requests that wait for one stream are sent in turn, with their bodies")
    func oneStream() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .data(let id, _, ends: true) = event else { return }
            link.respond(id)
        }
        try await GatewaySetup().http2().configuration {
            $0.upstreams[0].pool.streams = 1
            $0.upstreams[0].pool.maxConnections = 1
            $0.upstreams[0].pool.congestedTimeout = .seconds(30)
        }
        .run(against: script) { gateway, server in
            let client = try await gateway.http2()
            let ids = Array(stride(from: 1, to: 41, by: 2)) as [UInt32]
            for id in ids {
                client.send(.headers(id, .post("/public/\(id)"), ends: false), .data(id, "body \(id)", ends: true))
            }
            for id in ids { try await expect(client.response(id).text, equals: "ok") }
            expect(server.connectionCount, equals: 1)
            for request in server.requests {
                expect(String(decoding: request.body, as: UTF8.self), equals: "body \(request.path.dropFirst(8))")
            }
            try await atRest(gateway)
        }
    }

    @Test("A connection that is lost fails its requests, and repeatable ones are sent again on another one")
    func lost() async throws {
        let isFirst = Mutex(true)
        let count = Mutex(0)
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, ends: true) = event else { return }
            guard link.index == 0 else { return link.respond(id) }
            guard
                count.withLock({
                    $0 += 1; return $0 == 20
                })
            else { return }
            isFirst.withLock { $0 = false }
            link.close()
        }
        try await GatewaySetup().http2().configuration {
            $0.upstreams[0].retry.budget = 1
            $0.upstreams[0].retry.perSecond = 100
        }
        .run(against: script) { gateway, server in
            let client = try await gateway.http2()
            let ids = Array(stride(from: 1, to: 41, by: 2)) as [UInt32]
            for id in ids { client.send(.headers(id, .get("/public/a"))) }
            var statuses: [String: Int] = [:]
            for id in ids { statuses["\(try await client.response(id).status ?? 0)", default: 0] += 1 }
            #expect(statuses["200", default: 0] >= 10, "\(statuses)")
            #expect(statuses["200", default: 0] + statuses["502", default: 0] == 20)
            #expect(server.connectionCount >= 2)
            try await atRest(gateway)
        }
    }

    @Test("A response that waits for its client outlives the connection to the upstream")
    func outlives() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, ends: true) = event else { return }
            link.send(.headers(id, HTTP2Fields([(":status", "200")]), ends: false))
            for index in 0..<8 { link.send(.data(id, Array(repeating: 0x62, count: 16_000), ends: index == 7)) }
            link.send(.goAway(last: id))
            link.channel.eventLoop.scheduleTask(in: .milliseconds(200)) { link.close() }
        }
        try await GatewaySetup().http2().run(against: script) { gateway, server in
            let slow = try await gateway.http2(.init(settings: [.initialWindow(1_000)], sendsWindowUpdates: false))
            slow.send(.headers(1, .get()))
            try await eventually("the client's window") { slow.stream(1).bodyCount == 1_000 }
            try await eventually("the end of the connection") { server.closedCount == 1 }
            slow.send(.windowUpdate(1, 200_000), .windowUpdate(0, 200_000))
            let response = try await slow.response(1)
            expect(response.bodyCount, equals: 128_000)
            expect(response.isEnded)
            try await atRest(gateway)
        }
    }

    @Test("Many SETTINGS, PING and empty DATA frames do not end the connection")
    func manyControlFrames() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, let head, ends: true) = event else { return }
            guard head.first(name: ":path") == "/public/many" else { return link.respond(id) }
            for _ in 0..<300 {
                link.send(.settings([]), HTTP2WireFrame(type: 6, payload: Array(repeating: 1, count: 8)))
            }
            link.send(.headers(id, HTTP2Fields([(":status", "200")]), ends: false))
            for _ in 0..<50 { link.send(.data(id, "")) }
            link.send(.data(id, "many", ends: true))
        }
        try await GatewaySetup().run(against: script) { gateway, server in
            let client = try await gateway.client()
            for _ in 0..<3 { try await expect(client.exchange(Ask.get("/public/many")).text, equals: "many") }
            try await expect(client.exchange(Ask.get()).text, equals: "ok")
            expect(server.connectionCount, equals: 1)
        }
    }

    @Test("Limits of requests in flight hold for streams")
    func inFlight() async throws {
        try await GatewaySetup().http2().configuration {
            $0.upstreams[0].inFlight = InFlightConfiguration(target: 3)
            $0.upstreams[0].pool.pendingTimeout = .seconds(30)
            $0.upstreams[0].pool.congestedTimeout = .seconds(30)
        }
        .run(against: held.script()) { gateway, server in
            let client = try await gateway.http2()
            let ids = Array(stride(from: 1, to: 21, by: 2)) as [UInt32]
            for id in ids { client.send(.headers(id, .get("/public/slow"))) }
            var responded = 0
            while responded < ids.count {
                try await eventually("the next requests") { held.count == min(3, ids.count - responded) }
                try await client.settle()
                #expect(held.count <= 3)
                responded += held.count
                held.respond()
            }
            for id in ids { try await expect(client.response(id).text, equals: "ok") }
            expect(server.connectionCount, equals: 1)
            try await atRest(gateway)
        }
    }

    @Test("At its maximum age the connection is replaced; no request fails")
    func lifetime() async throws {
        try await GatewaySetup().http2().configuration {
            $0.upstreams[0].pool.connectionLifetime = .nanoseconds(1)
        }
        .run(against: held.script()) { gateway, server in
            let client = try await gateway.http2()
            let ids = Array(stride(from: 1, to: 17, by: 2)) as [UInt32]
            for id in ids { client.send(.headers(id, .get())) }
            for id in ids { try await expect(client.response(id).text, equals: "ok") }
            expect(server.connectionCount, equals: 8)
            for connection in 0..<8 {
                expect(server.requests.filter { $0.connection == connection }.count, equals: 1)
            }
            try await eventually("the ends") { server.closedCount >= 7 }
        }
    }

    @Test("A reload that changes the upstream ends its idle connections, and others when they are idle")
    func reload() async throws {
        try await GatewaySetup().run(against: held.script()) { gateway, server in
            let slow = try await gateway.client(sending: Ask.get("/public/slow"))
            try await eventually("the request") { held.count == 1 }
            try await gateway.replace { $0.upstreams[0].pool.streams = 7 }
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            expect(server.connectionCount, equals: 2)
            expect(server.closedCount, equals: 0)
            held.respond()
            try await expect(slow.response().text, equals: "ok")
            try await eventually("the end of the first connection") { server.closedCount == 1 }
            expect(server.events.filter { if case .goAway = $0 { true } else { false } }.count, equals: 1)
        }
    }

    @Test("After a reload, requests that fail with their connection leave nothing in the gauges")
    func gaugesAfterReload() async throws {
        try await GatewaySetup().configuration { $0.upstreams[0].retry = RetryConfiguration(attempts: 1) }.run(
            against: held.script()
        ) { gateway, _ in
            let client = try await gateway.client(sending: Ask.get("/public/slow"))
            try await eventually("the request") { held.count == 1 }
            try await gateway.metric("\(Self.gauge) 1")
            try await gateway.replace { $0.upstreams[0].pool.streams = 7 }
            held.streams.withLock { streams in
                for (link, _) in streams { link.close() }
            }
            try await expect(client.response().status, equals: 502)
            try await atRest(gateway)
        }
    }

    @Test("The protocol is logged; GOAWAY and resets are counted")
    func observability() async throws {
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, let head, ends: true) = event else { return }
            switch head.first(name: ":path") {
            case "/public/reset": link.send(.reset(id, .internalError))
            case "/public/away":
                link.send(.goAway(last: id))
                link.respond(id)
            default: link.respond(id)
            }
        }
        try await GatewaySetup().run(against: script) { gateway, _ in
            let client = try await gateway.client()
            try await expect(client.exchange(Ask.post("/public/reset")).status, equals: 502)
            try await expect(client.exchange(Ask.get("/public/away")).text, equals: "ok")
            try await gateway.metric("cloakroom_upstream_http2_goaways_total{upstream=\"api\"} 1")
            try await gateway.metric(
                "cloakroom_upstream_http2_resets_total{by=\"target\",code=\"INTERNAL_ERROR\",upstream=\"api\"} 1")
        }
    }

    @Test("Calls with status 14 eject their target; status 8 does not")
    func ejection() async throws {
        let status = Mutex("8")
        let call = ("content-type", "application/grpc")
        let script: FrameServer.Script = { link, event in
            guard case .headers(let id, _, ends: true) = event else { return }
            link.send(
                .headers(id, HTTP2Fields([(":status", "200"), call, ("grpc-status", status.withLock { $0 })])))
        }
        try await FrameServer.run(script: script) { port, server in
            try await FrameServer.run(script: script) { other, _ in
                let setup = GatewaySetup().http2Upstream(port).targets(
                    .http("127.0.0.1", port), .http("127.0.0.1", other)
                ).configuration {
                    $0.routes[0].grpc = true
                    $0.upstreams[0].balance.policy = .roundRobin
                }
                try await setup.runHTTP2 { gateway, client in
                    let ejections = { @Sendable in
                        gateway.metrics.split(separator: "\n").filter {
                            $0.hasPrefix("cloakroom_upstream_ejections_total") && !$0.hasSuffix(" 0")
                        }
                    }
                    var id: UInt32 = 1
                    for _ in 0..<20 {
                        let response = try await client.exchange(id, .post("/public/m", call))
                        expect(response.head?["grpc-status"], equals: ["8"])
                        id += 2
                    }
                    expect(empty: ejections())
                    status.withLock { $0 = "14" }
                    for _ in 0..<20 {
                        _ = try await client.exchange(id, .post("/public/m", call))
                        id += 2
                    }
                    try await eventually("an ejection") { ejections().count == 1 }
                }
            }
        }
    }

    @Test(
        "Rule 59: a small call that the server has not processed is sent again, with its messages, if there is memory for them",
        arguments: [true, false])
    func refusedCall(hasMemory: Bool) async throws {
        let isFirst = Mutex(true)
        let script: FrameServer.Script = { link, event in
            guard case .data(let id, _, ends: true) = event else { return }
            guard
                !isFirst.withLock({ first in
                    defer { first = false }; return first
                })
            else {
                return link.send(.goAway(last: 0))
            }
            link.send(
                .headers(id, HTTP2Fields([(":status", "200"), ("grpc-status", "0")])))
        }
        let setup = GatewaySetup().http2().configuration {
            $0.routes[0].grpc = true
            if !hasMemory { $0.limits.requestBuffers = 0 }
        }
        try await setup.run(against: script) { gateway, server in
            let client = try await gateway.http2()
            client.send(
                .headers(1, .post("/public/m", ("content-type", "application/grpc")), ends: false),
                .data(1, "a message"), .data(1, ", and another one", ends: true))
            try await expect(client.response(1).head?["grpc-status"], equals: [hasMemory ? "0" : "14"])
            expect(
                server.requests.map { String(decoding: $0.body, as: UTF8.self) },
                equals: Array(repeating: "a message, and another one", count: hasMemory ? 2 : 1))
        }
    }
}
