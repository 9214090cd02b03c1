import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("TLS handshakes and connections are counted", .timeLimit(.minutes(1)))
struct HandshakeMetricsTests {
    private let directory: CertificateFixture
    private let tls: ListenerTLSConfiguration

    init() throws {
        directory = try CertificateFixture()
        tls = try directory.server("server", names: ["a.test"]).listener
    }

    private func handshakes(_ outcome: String, _ version: String = "", count: Int) -> String {
        #"cloakroom_tls_handshakes_total{outcome="\#(outcome)",version="\#(version)"} \#(count)"#
    }

    @Test("By outcome and version, each connection once")
    func outcomes() async throws {
        let setup = GatewaySetup().configuration { [tls] in
            $0.listeners[0].tls = tls
            $0.timeouts.header = .seconds(10)
        }
        try await setup.steppedTime().run { gateway in
            let client = try await TLSClient.connect(port: gateway.port, isGreeted: false)
            try await gateway.metric(handshakes("success", "1.3", count: 1))
            try await client.close()
            let plain = try await gateway.client(sending: "GET / HTTP/1.1\r\n\r\n")
            try await gateway.metric(handshakes("failed", count: 1))
            // The gateway may have closed it.
            try? await plain.close()
            try await gateway.client().close()
            try await gateway.metric(handshakes("aborted", count: 1))
            let silent = try await gateway.client()
            try await gateway.advance(.milliseconds(9_900))
            try await gateway.metric(handshakes("timeout", count: 0))
            try await gateway.advance(.milliseconds(200))
            try await gateway.metric(handshakes("timeout", count: 1))
            try? await silent.close()
            try await gateway.metric(handshakes("aborted", count: 1))
            try await gateway.metric(handshakes("success", "1.2", count: 0))
        }
    }

    @Test(
        "A connection with a part of a request is not idle",
        arguments: ["GET /public", "GET /public/a HTTP/1.1\r\nHost: a"])
    func partOfRequest(bytes: String) async throws {
        try await GatewaySetup([]).run { gateway, client in
            client.send(bytes)
            try await gateway.metric(#"cloakroom_connections_by_state{state="active"} 1"#)
            try await gateway.metric(#"cloakroom_connections_by_state{state="idle"} 0"#)
            try await client.close()
        }
    }

    @Test("Connections are counted by state, with the limit, and the lag of event loops is recorded")
    func connections() async throws {
        let gate = Gate()
        let setup = GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again]).configuration {
            $0.limits.connections = 50
        }
        try await setup.run { gateway in
            try await gateway.metric("cloakroom_connections_limit 50")
            let busy = try await gateway.client(sending: Ask.get("/public/a"))
            let idle = try await gateway.client()
            try await gateway.metric(#"cloakroom_connections_by_state{state="active"} 1"#)
            try await gateway.metric(#"cloakroom_connections_by_state{state="idle"} 1"#)
            gate.open()
            try await gateway.metric(#"cloakroom_connections_by_state{state="idle"} 2"#)
            try await busy.close()
            try await idle.close()
            try await gateway.metric(#"cloakroom_connections_by_state{state="idle"} 0"#)
            try await eventually("a recorded lag") {
                gateway.metrics.split(separator: "\n").contains {
                    $0.hasPrefix("cloakroom_event_loop_lag_seconds_count") && !$0.hasSuffix(" 0")
                }
            }
        }
    }
}
