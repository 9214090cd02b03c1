import Glibc
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("The status of a target for operators", .serialized)
struct CircuitStatusTests {
    private let second: UInt64 = 1_000_000_000
    private let time = WallTime(seconds: 1_700_000_000)

    private struct Rejected: Error, CustomStringConvertible {
        var description = "refused"
    }

    @Test("The last failure is kept with its time and reason, and logged at most once per 10 s")
    func lastFailure() {
        let log = RecordedLog()
        let failures = ConnectFailureLog(log.logger)
        expect(failures.last, equals: nil)
        failures.failed(.connectTimeout, Rejected(), now: second, time: WallTime(seconds: 1))
        failures.failed(.tls, Rejected(), now: 2 * second, time: time)
        expect(failures.last, equals: FailureStatus(time: time, reason: "the TLS handshake failed"))
        expect(log.lines("message", "upstream connection failed").count, equals: 1)
    }

    @Test("A lack of descriptors, memory or local ports is no failure of the target")
    func ownResources() throws {
        let configuration = UpstreamConfiguration(name: "api", targets: [.http("127.0.0.1", 9)])
        let upstream = try UpstreamTargets(configuration, logger: RecordedLog().logger)
        let target = try require(upstream.targets.targets.first)
        func kind(_ code: CInt) -> UpstreamFailure.Kind {
            UpstreamFailure(connecting: IOError(errnoCode: code, reason: "connect"), to: target).kind
        }
        for code in [EMFILE, ENFILE, ENOBUFS, ENOMEM] { expect(kind(code), equals: .noResources) }
        for code in [ECONNREFUSED, ENETUNREACH, ETIMEDOUT] { expect(kind(code), equals: .unreachable) }
        // The machine may have no address of the target's family, until a connection was established.
        expect(kind(EADDRNOTAVAIL), equals: .unreachable)
        target.connected()
        expect(kind(EADDRNOTAVAIL), equals: .noResources)
    }

    @Test("A reason is in plain words, without text of the peer and names of types")
    func words() {
        func text(_ kind: UpstreamFailure.Kind, _ error: any Error) -> String {
            ConnectFailureReason.text(kind, error, at: time)
        }
        expect(text(.unreachable, Rejected(description: "\u{1b}[2J")), equals: "no connection could be established")
        expect(
            text(.connectTimeout, ChannelError.connectTimeout(.seconds(1))), equals: "the connection attempt timed out")
        expect(text(.unreachable, IOError(errnoCode: ECONNREFUSED, reason: "connect")), equals: "connection refused")
        expect(text(.unreachable, IOError(errnoCode: EHOSTUNREACH, reason: "connect")), equals: "no route to host")
        var tls = TLSHandshakeError(cause: Rejected())
        expect(text(.tls, tls), equals: "the TLS handshake failed: the target may not use TLS on this port")
        tls.expiry = time - .seconds(1)
        expect(text(.tls, tls), equals: "the certificate has expired")
        tls.expiry = time
        expect(
            text(.tls, tls),
            equals: "no trusted authority issued the certificate, or the target requires one of a client")
    }

    @Test("A host name without an address is reported as such")
    func noName() async throws {
        let resolver = HostResolver { _, _ in
            MultiThreadedEventLoopGroup.singleton.any().makeFailedFuture(Rejected())
        }
        let configuration = UpstreamConfiguration(name: "api", targets: [.http("nowhere.test", 9)])
        let targets = try UpstreamTargets(configuration, resolver: resolver, logger: RecordedLog().logger)
        let entry = try require(targets.targets.targets.first)
        let connector = UpstreamConnector(eventLoop: MultiThreadedEventLoopGroup.singleton.any())
        let error = try await require(
            #expect(throws: (any Error).self) { try await connector.connect(entry, within: .seconds(10)).get() })
        expect(ConnectFailureReason.text(.unreachable, error, at: time), equals: "the host name was not found")
    }

    @Test("The status of a target begins closed and changes with the outcome of connection attempts")
    func status() throws {
        let configuration = UpstreamConfiguration(
            name: "api", targets: [.http("127.0.0.1", 9), .http("127.0.0.1", 10)])
        let upstream = try UpstreamTargets(configuration, logger: RecordedLog().logger)
        let targets = upstream.targets.targets
        expect(targets.map { $0.status(now: 0).address }, equals: ["http://127.0.0.1:9", "http://127.0.0.1:10"])
        expect(targets.map { $0.status(now: 0).circuit }, equals: [.closed, .closed])
        targets[0].record(.unreachable, Rejected(), now: 7, time: time)
        upstream.board.connectFailed(targets[0].state, startedAt: 0, now: second, random: 0)
        let condition = upstream.board.condition(of: targets[0].state, now: second + 8)
        let failed = targets[0].status(condition, now: second + 8)
        expect(failed.circuit, equals: .open)
        expect(failed.condition, equals: .backingOff)
        expect(failed.until != nil)
        expect(failed.inFlight, equals: 0)
        expect(failed.lastFailure, equals: FailureStatus(time: time, reason: "no connection could be established"))
        expect(targets[0].status(now: 3 * second).circuit, equals: .halfOpen)
        expect(targets[1].status(now: 8).circuit, equals: .closed)
        upstream.board.connected(targets[0].state, now: 3 * second)
        expect(targets[0].status(now: 3 * second).circuit, equals: .closed)
    }

    @Test("The system's error for a refused connection is reported, for an address and for a name")
    func systemReason() async throws {
        let rejecting = try await ScriptedServer.rejectingPort()
        let configuration = UpstreamConfiguration(
            name: "api", targets: [.http("127.0.0.1", rejecting), .http("localhost", rejecting)])
        let connector = UpstreamConnector(eventLoop: MultiThreadedEventLoopGroup.singleton.any())
        for entry in try UpstreamTargets(configuration, logger: RecordedLog().logger).targets.targets {
            let error = try await require(
                #expect(throws: (any Error).self) {
                    try await connector.connect(entry, within: .seconds(10)).get()
                })
            let kind = UpstreamFailure(connecting: error, to: entry).kind
            expect(kind, equals: .unreachable)
            expect(ConnectFailureReason.text(kind, error, at: time), equals: "connection refused")
        }
    }

    @Test("A running gateway reports the target that refuses connections and the one that serves")
    func running() async throws {
        let port = try await ScriptedServer.rejectingPort()
        try await ScriptedUpstream.run([[.request, .send(Reply.ok), .close]]) { serving, _ in
            try await GatewaySetup().targets(.http("127.0.0.1", port), .http("127.0.0.1", serving)).run { gateway in
                expect(gateway.server.upstreamStatus().map(\.name), equals: ["api"])
                expect(gateway.server.upstreamStatus()[0].targets.map(\.circuit), equals: [.closed, .closed])
                // Targets are selected at random, until one turns out to be unreachable.
                for _ in 0..<64 where gateway.server.upstreamStatus()[0].targets[0].circuit == .closed {
                    try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
                }
                let targets = gateway.server.upstreamStatus()[0].targets
                expect(targets.map(\.address), equals: ["http://127.0.0.1:\(port)", "http://127.0.0.1:\(serving)"])
                expect(targets[0].circuit != .closed)
                expect(targets[0].lastFailure?.reason, equals: "connection refused")
                expect(targets[1].circuit, equals: .closed)
                expect(targets[1].lastFailure, equals: nil)
                try await eventually("the end of the back-off") {
                    gateway.server.upstreamStatus()[0].targets[0].circuit == .halfOpen
                }
            }
        }
    }

    @Test("The circuit of a recovered target closes with the next connection")
    func comesBack() async throws {
        let rejecting = try await BlackholePort(.rejects)
        defer { rejecting.release() }
        let port = rejecting.port
        try await GatewaySetup().targets(.http("127.0.0.1", port)).run { gateway, client in
            try await expect(client.exchange(Ask.get()).status, equals: 502)
            let failed = gateway.server.upstreamStatus()[0].targets[0]
            expect(failed.circuit != .closed)
            rejecting.release()
            let place = try SocketAddress(ipAddress: "127.0.0.1", port: port)
            try await ScriptedUpstream.run([[.request, .send(Reply.ok), .close]], at: place) { _, _ in
                let response = try await client.exchange(Ask.get())
                expect(response.text, equals: "ok")
                let back = gateway.server.upstreamStatus()[0].targets[0]
                expect(back.circuit, equals: .closed)
                expect(back.lastFailure, equals: failed.lastFailure)
            }
        }
    }
}
