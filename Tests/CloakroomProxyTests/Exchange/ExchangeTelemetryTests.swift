import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import InMemoryTracing
import NIOCore
import TestSupport
import Testing
import Tracing

@testable import CloakroomProxy

@Suite("The telemetry of one exchange, without a connection")
struct ExchangeTelemetryTests {
    private let tracer = InMemoryTracer()
    private let peer = Peer(address: "192.0.2.1", isTLS: false, trusted: [], listener: 0)
    private let config: ConfigSnapshot

    init() throws {
        config = try GatewaySetup().with(\.tracer, tracer).makeConfig()
    }

    /// The telemetry of a request for the first route, which arrived at 1,000 ns and is sampled.
    private func started(_ text: String = Ask.get()) throws -> ExchangeTelemetry {
        let request = try RequestDeciderTests.makeRequest(text)
        var telemetry = ExchangeTelemetry()
        telemetry.start(
            request.method, version: request.version, from: peer, id: ID128(high: 1, low: 2), wallNanoseconds: 5,
            now: 1_000)
        if telemetry.routed(to: 0, context: config.telemetry.childContext(of: nil)) {
            telemetry.startServerSpan(
                request, from: peer, config: config, routes: [RouteLabels(name: "public", pattern: "/public/*")])
        }
        return telemetry
    }

    private func attempt(
        _ telemetry: inout ExchangeTelemetry, of other: UpstreamRuntime? = nil, isHTTP2: Bool = false,
        resends: Int = 0, now: UInt64
    ) {
        let upstream = other ?? config.upstreams[0]
        telemetry.startAttempt(
            upstream, target: upstream.targets.targets.targets[0], path: "/public/a", isHTTP2: isHTTP2,
            resends: resends,
            config: config,
            now: now)
    }

    @Test("A forwarded request: durations, byte counts and two finished spans")
    func forwarded() throws {
        var telemetry = try started()
        attempt(&telemetry, now: 1_100)
        telemetry.requestWritten(now: 1_200)
        telemetry.receivedBody(3)
        telemetry.responseStarted(status: 200)
        telemetry.sentBody(4)
        telemetry.sentBody(5)
        telemetry.finish(errorType: nil, now: 2_000, eventTime: 1_900)
        let record = telemetry.record
        expect(record.durationNanoseconds, equals: 1_000)
        expect(record.upstreamDurationNanoseconds, equals: 700)
        expect(record.status, equals: 200)
        expect(record.upstreamStatus, equals: nil)
        expect(record.upstreamIndex, equals: 0)
        expect(record.bytesReceived, equals: 3)
        expect(record.bytesSent, equals: 9)
        expect(record.startWallNanoseconds, equals: 5)
        expect(record.peerAddress, equals: "192.0.2.1")
        expect(tracer.finishedSpans.count, equals: 2)
        expect(empty: tracer.activeSpans)
        expect(telemetry.spanContext == nil)
    }

    @Test("The upstream's time is not negative if the request was sent after the event's time")
    func eventBeforeSending() throws {
        var telemetry = try started()
        attempt(&telemetry, now: 1_100)
        telemetry.requestWritten(now: 1_300)
        telemetry.finish(errorType: nil, now: 2_000, eventTime: 1_100)
        expect(telemetry.record.upstreamDurationNanoseconds, equals: 0)
    }

    @Test("An upload is part of the upstream's time; only the upstream is awaited from the end of the body")
    func upload() throws {
        var telemetry = try started()
        attempt(&telemetry, now: 1_100)
        expect(telemetry.awaitedSince, equals: 1_100)
        telemetry.uploadCompleted(now: 1_500)
        expect(telemetry.awaitedSince, equals: 1_500)
        expect(telemetry.sentAt, equals: 1_100)
        telemetry.finish(errorType: nil, now: 2_000, eventTime: 1_900)
        expect(telemetry.record.upstreamDurationNanoseconds, equals: 800)
    }

    @Test("A local response has no upstream duration, and none of a HEAD's body is counted")
    func localResponse() throws {
        var telemetry = try started()
        telemetry.localResponse(status: 404, bodyLength: 10)
        telemetry.finish(errorType: nil, now: 2_000, eventTime: 2_000)
        expect(telemetry.record.bytesSent, equals: 10)
        expect(telemetry.record.upstreamStatus, equals: nil)
        expect(telemetry.record.upstreamDurationNanoseconds, equals: nil)
        var head = try started("HEAD /public/a HTTP/1.1\r\nHost: a\r\n\r\n")
        head.localResponse(status: 404, bodyLength: 10)
        expect(head.record.bytesSent, equals: 0)
    }

    @Test(
        "The span of an attempt has the version, the address of a host name, and how often the request was sent before")
    func attemptAttributes() async throws {
        let address = try SocketAddress(ipAddress: "10.0.0.7", port: 80)
        let names = FakeNames([address])
        let named = try GatewaySetup().with(\.resolver, names.resolver).targets(.http("api.test", 80)).makeConfig()
            .upstreams[0]
        for target in named.targets.targets.targets { named.targets.established(target, at: address) }
        await expect(named.targets.resolve(now: 1_000_000_000))
        var telemetry = try started()
        // Further connection attempts before do not count.
        telemetry.retried(.connect)
        attempt(&telemetry, now: 1_100)
        telemetry.endAttempt(UpstreamFailure(.closedBeforeResponse), now: 1_500)
        telemetry.retried(.reset)
        attempt(&telemetry, of: named, isHTTP2: true, resends: 1, now: 1_600)
        telemetry.responseStarted(status: 200)
        telemetry.finish(errorType: nil, now: 2_000, eventTime: 1_900)
        let clients = tracer.finishedSpans.filter { $0.kind == .client }
        let attributes = { name in clients.map { $0.text(name) } }
        expect(attributes("network.protocol.version"), equals: ["1.1", "2"])
        expect(attributes("network.peer.address"), equals: [nil, "10.0.0.7"])
        expect(attributes("server.address"), equals: ["127.0.0.1", "api.test"])
        expect(attributes("http.request.resend_count"), equals: [nil, "1"])
        expect(telemetry.record.retries, equals: 2)
    }

    @Test("Both spans of a request with a non-standard method have it as sent")
    func originalMethod() throws {
        var telemetry = try started("BREW /public/a HTTP/1.1\r\nHost: a\r\n\r\n")
        attempt(&telemetry, now: 1_100)
        telemetry.responseStarted(status: 200)
        telemetry.finish(errorType: nil, now: 2_000, eventTime: 1_900)
        expect(tracer.finishedSpans.count, equals: 2)
        for span in tracer.finishedSpans {
            expect(span.text("http.request.method"), equals: "_OTHER")
            expect(span.text("http.request.method_original"), equals: "BREW")
        }
        expect(tracer.finishedSpans.map(\.operationName).sorted(), equals: ["HTTP", "HTTP /public/*"])
    }

    @Test("Waits for the body and for a connection are events of the server span")
    func waits() throws {
        var telemetry = try started()
        telemetry.bodyWaitStarted(at: 1_000_000)
        telemetry.bodyWaitEnded(at: 3_500_000)
        telemetry.queueStarted(at: 4_000_000)
        expect(telemetry.queueEnded(at: 5_000_000), equals: 1_000_000)
        attempt(&telemetry, now: 5_000_000)
        telemetry.responseStarted(status: 200)
        telemetry.finish(errorType: nil, now: 6_000_000, eventTime: 6_000_000)
        let server = try require(tracer.finishedSpans.first { $0.kind == .server })
        expect(server.events.map(\.name), equals: ["body_wait", "queue"])
        let durations = server.events.map { event -> Double? in
            if case .double(let time)? = event.attributes.get("cloakroom.duration_ms") { time } else { nil }
        }
        expect(durations, equals: [2.5, 1])
    }

    @Test("The wait for tokens is time of the identity calls, and an event of the server span")
    func tokenWait() throws {
        var telemetry = try started()
        telemetry.tokensAwaited(nanoseconds: 0)
        telemetry.tokensAwaited(nanoseconds: 200)
        telemetry.tokensAwaited(nanoseconds: 100)
        attempt(&telemetry, now: 1_500)
        telemetry.responseStarted(status: 200)
        telemetry.finish(errorType: nil, now: 2_000, eventTime: 1_900)
        expect(telemetry.record.identityNanoseconds, equals: 300)
        expect(telemetry.record.upstreamDurationNanoseconds, equals: 400)
        let server = try require(tracer.finishedSpans.first { $0.kind == .server })
        expect(server.events.map(\.name), equals: ["token_wait", "token_wait"])
        telemetry.start(.get, version: .http2, from: peer, id: ID128(high: 0, low: 3), wallNanoseconds: 6, now: 3_000)
        expect(telemetry.record.identityNanoseconds, equals: 0)
    }

    @Test("An attempt whose token was rejected ends with an error, the exchange without one")
    func rejectedToken() throws {
        var telemetry = try started()
        attempt(&telemetry, now: 1_100)
        telemetry.endRejectedAttempt(status: 401)
        telemetry.endRejectedAttempt(status: 401)
        telemetry.retried()
        attempt(&telemetry, now: 1_600)
        telemetry.responseStarted(status: 200)
        telemetry.finish(errorType: nil, now: 2_000, eventTime: 1_900)
        expect(tracer.finishedSpans.filter { $0.kind == .client }.map { $0.status?.code }, equals: [.error, nil])
    }

    @Test("A failed connection attempt is reported with its target and duration")
    func connectFailed() throws {
        var telemetry = try started()
        telemetry.connectFailed(target: 2, duration: 70)
        telemetry.finish(errorType: .upstreamUnreachable, now: 2_000, eventTime: 2_000)
        expect(telemetry.record.upstreamIndex, equals: 2)
        expect(telemetry.record.upstreamStatus, equals: 0)
        expect(telemetry.record.upstreamDurationNanoseconds, equals: 70)
    }

    @Test("The next exchange of a connection begins without the data of the one before")
    func nextExchange() throws {
        var telemetry = try started()
        attempt(&telemetry, now: 1_100)
        telemetry.receivedBody(3)
        telemetry.failed(.bodyTooLarge)
        telemetry.finish(errorType: .bodyTooLarge, now: 2_000, eventTime: 2_000)
        telemetry.start(.get, version: .http2, from: peer, id: ID128(high: 0, low: 3), wallNanoseconds: 6, now: 3_000)
        expect(telemetry.sentAt, equals: 0)
        expect(telemetry.receivedBodyBytes, equals: 0)
        expect(telemetry.record.errorType, equals: nil)
        expect(telemetry.traceContext, equals: nil)
        expect(telemetry.startedAt, equals: 3_000)
    }
}
