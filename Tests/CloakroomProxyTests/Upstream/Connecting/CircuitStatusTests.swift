import CloakroomCore
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The status of a target for operators", .serialized)
struct CircuitStatusTests {
    private let second: UInt64 = 1_000_000_000
    private let time = Timestamp(seconds: 1_700_000_000)

    private struct Rejected: Error, CustomStringConvertible {
        var description = "refused"
    }

    @Test("Before the first attempt and after an established connection the circuit is closed")
    func closed() {
        let circuit = CircuitStatus()
        #expect(circuit.state(now: 0) == .closed)
        #expect(circuit.state(now: .max) == .closed)
        #expect(circuit.lastFailure == nil)
        circuit.failed(.unreachable, Rejected(), at: time, backOffEnd: 5 * second)
        circuit.succeeded()
        #expect(circuit.state(now: 0) == .closed)
    }

    @Test("It is open until the back-off ends, and half-open until the next attempt")
    func backOff() {
        let circuit = CircuitStatus()
        circuit.failed(.unreachable, Rejected(), at: time, backOffEnd: 5 * second)
        #expect(circuit.state(now: 0) == .open)
        #expect(circuit.state(now: 5 * second - 1) == .open)
        #expect(circuit.state(now: 5 * second) == .halfOpen)
        #expect(circuit.state(now: 500 * second) == .halfOpen)
        circuit.failed(.unreachable, Rejected(), at: time, backOffEnd: 600 * second)
        #expect(circuit.state(now: 500 * second) == .open)
    }

    @Test("The most recent outcome of all event loops counts")
    func loops() {
        let circuit = CircuitStatus()
        circuit.failed(.unreachable, Rejected(), at: time, backOffEnd: 30 * second)
        circuit.failed(.unreachable, Rejected(), at: time, backOffEnd: 2 * second)
        #expect(circuit.state(now: 3 * second) == .halfOpen)
        circuit.succeeded()
        #expect(circuit.state(now: 3 * second) == .closed)
    }

    @Test("The last failure is kept with its time and kind after the target has recovered")
    func lastFailure() {
        let circuit = CircuitStatus()
        circuit.failed(.connectTimeout, Rejected(), at: Timestamp(seconds: 1), backOffEnd: second)
        circuit.failed(.tls, Rejected(), at: time, backOffEnd: second)
        circuit.succeeded()
        #expect(circuit.lastFailure == UpstreamStatus.Failure(time: time, reason: "tls: refused"))
    }

    @Test("A reason has at most 200 characters and no control characters")
    func longReason() {
        let long = Rejected(description: "a\u{1b}[2J\nb" + String(repeating: "e\u{301}", count: 5_000))
        let reason = ConnectFailureReason.text(.tls, long)
        #expect(reason.hasPrefix("tls: a [2J b"))
        #expect(reason.unicodeScalars.count == 200)
    }

    @Test("The status of a target begins closed and changes with the outcome of connection attempts")
    func status() throws {
        let configuration = UpstreamConfiguration(
            name: "api", targets: [.http("127.0.0.1", 9), .https("api.test", 443)])
        let targets = configuration.targets.map {
            TargetRuntime($0, of: configuration, tls: nil, resolver: .system, logger: RecordedLog().logger)
        }
        #expect(
            targets.map { $0.status(now: 0) } == [
                UpstreamStatus.Target(address: "http://127.0.0.1:9", circuit: .closed),
                UpstreamStatus.Target(address: "https://api.test:443", circuit: .closed),
            ])
        targets[0].failed(.unreachable, Rejected(), now: 7, time: time, backOffEnd: second)
        #expect(
            targets[0].status(now: 8)
                == UpstreamStatus.Target(
                    address: "http://127.0.0.1:9", circuit: .open,
                    lastFailure: UpstreamStatus.Failure(time: time, reason: "unreachable: refused")))
        #expect(targets[1].status(now: 8).circuit == .closed)
        targets[0].connectSucceeded()
        #expect(targets[0].status(now: 8).circuit == .closed)
    }

    @Test("The system's error for a refused connection is reported, for an address and for a name")
    func systemReason() async throws {
        let rejecting = try await BlackholePort(.rejects)
        defer { rejecting.release() }
        let configuration = UpstreamConfiguration(
            name: "api", targets: [.http("127.0.0.1", rejecting.port), .http("localhost", rejecting.port)])
        let connector = UpstreamConnector(eventLoop: MultiThreadedEventLoopGroup.singleton.any())
        for target in configuration.targets {
            let entry = TargetRuntime(
                target, of: configuration, tls: nil, resolver: .system, logger: RecordedLog().logger)
            let error = try #require(
                await #expect(throws: (any Error).self) {
                    try await connector.connect(entry, within: .seconds(10)).get()
                })
            let reason = ConnectFailureReason.text(UpstreamFailure(connecting: error).kind, error)
            #expect(reason.hasPrefix("unreachable: "))
            #expect(reason.contains("refused"), "\(reason)")
            #expect(!reason.contains("NIOConnectionError"))
        }
    }

    @Test("A running gateway reports the target that refuses connections and the one that serves")
    func running() async throws {
        let rejecting = try await BlackholePort(.rejects)
        defer { rejecting.release() }
        let port = rejecting.port
        try await ScriptedUpstream.run([[.request, .send(Reply.ok), .close]]) { serving, _ in
            try await GatewaySetup().targets(.http("127.0.0.1", port), .http("127.0.0.1", serving)).run { gateway in
                #expect(gateway.server.upstreamStatus().map(\.name) == ["api"])
                #expect(gateway.server.upstreamStatus()[0].targets.map(\.circuit) == [.closed, .closed])
                #expect(try await gateway.client().exchange(Ask.get()).text == "ok")
                let targets = gateway.server.upstreamStatus()[0].targets
                #expect(targets.map(\.address) == ["http://127.0.0.1:\(port)", "http://127.0.0.1:\(serving)"])
                #expect(targets[0].circuit != .closed)
                #expect(targets[0].lastFailure?.reason.hasPrefix("unreachable: ") == true)
                #expect(targets[1] == UpstreamStatus.Target(address: targets[1].address, circuit: .closed))
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
        try await GatewaySetup().targets(.http("127.0.0.1", port)).run { gateway in
            let client = try await gateway.client()
            #expect(try await client.exchange(Ask.get()).status == 502)
            let failed = gateway.server.upstreamStatus()[0].targets[0]
            #expect(failed.circuit != .closed)
            let place = try SocketAddress(ipAddress: "127.0.0.1", port: port)
            try await ScriptedUpstream.run([[.request, .send(Reply.ok), .close]], at: place) { _, _ in
                let response = try await client.exchange(Ask.get())
                #expect(response.text == "ok")
                let back = gateway.server.upstreamStatus()[0].targets[0]
                #expect(back.circuit == .closed)
                #expect(back.lastFailure == failed.lastFailure)
            }
        }
    }
}
