import Foundation
import TestSupport
import Testing

@testable import cloakroom

/// `cloakroom why`.
@Suite("Why", .serialized, .timeLimit(.minutes(3)))
struct WhyCommandTests {
    private static let token = "A-token-of-the-admin-listener-1234567"

    private func why(
        _ arguments: [String], token: String? = token
    ) async throws -> (ending: ChildProgram.Ending, output: String, errors: String) {
        let environment = token.map { ["CLOAKROOM_ADMIN_TOKEN": $0] } ?? [:]
        return try await ChildProgram.run(try Executables.cloakroom(), ["why"] + arguments, environment: environment)
    }

    @Test("A rejected request is explained by the id of its error document, with the admin token")
    func explained() async throws {
        var yaml = GatewayYAML(upstream: "http://127.0.0.1:9")
        yaml.adminToken = Self.token
        try await GatewayProcess.running(yaml) { gateway in
            let response = try await gateway.client.get("/no-route-has-this?secret=1")
            let id = try require(response.problem?.request_id)
            // It is kept shortly after the response.
            let found = try await eventually("it is kept") {
                let found = try await why([id, "--admin", gateway.admin])
                return found.ending.status == 0 ? found : nil
            }
            for line in [
                "request     GET /no-route-has-this\n", "status      404\n", "rule        routes\n",
                "reason      not_found\n", "cause       No route serves the request: there is none,",
            ] { expect(found.output.contains(line), "\(found.output)") }
            expect(!found.output.contains("secret"))
            let json = try await why([id, "--json", "--admin", gateway.admin])
            expect(json.output.contains("\"reason\" : \"not_found\""), "\(json.output)")
            let other = try await why([String(repeating: "0", count: 32), "--admin", gateway.admin])
            expect(other.ending, equals: ChildProgram.Ending(status: 1))
            expect(other.errors.contains("the gateway holds 1, the oldest of 20"), "\(other.errors)")
            let without = try await why([id, "--admin", gateway.admin], token: nil)
            expect(without.ending, equals: ChildProgram.Ending(status: 1))
            expect(without.errors.contains("set CLOAKROOM_ADMIN_TOKEN or --token-file"), "\(without.errors)")
            expect(without.errors.contains("why needs no token with --control-socket PATH"))
        }
    }

    /// A request, and the reason for its rejection.
    struct Rejected: Sendable {
        let reason: String
        let request: String
        var field = ("Accept", "*/*")
        var body: String?
    }

    @Test("What a gateway rejects has the cause and the remedy of its reason")
    func reasons() async throws {
        var yaml = GatewayYAML(upstream: "http://127.0.0.1:9")
        yaml.adminToken = Self.token
        let json = ("Content-Type", "application/json")
        try await GatewayProcess.running(yaml) { gateway in
            for rejected in [
                Rejected(reason: "no_session", request: "GET /user"),
                Rejected(reason: "upstream_unreachable", request: "GET /episodes"),
                Rejected(reason: "method_not_allowed", request: "DELETE /episodes"),
                Rejected(reason: "target_too_long", request: "GET /\(String(repeating: "a", count: 9_000))"),
                Rejected(
                    reason: "header_fields_too_large", request: "GET /episodes",
                    field: ("X-Large", String(repeating: "a", count: 20_000))),
                Rejected(reason: "cross_site", request: "POST /auth", field: ("Sec-Fetch-Site", "cross-site")),
                Rejected(
                    reason: "unsupported_media_type", request: "POST /auth", field: ("Content-Type", "text/plain"),
                    body: "x"),
                Rejected(
                    reason: "invalid_input", request: "POST /auth", field: json,
                    body: #"{"email":"jo","password":"secret"}"#),
                Rejected(
                    reason: "identity_call_failed", request: "POST /auth",
                    field: ("Authorization", WebClient.basic("jo@example.com", "secret"))),
            ] {
                let words = rejected.request.split(separator: " ").map(String.init)
                let response = try await gateway.client.send(words[0], words[1], [rejected.field], body: rejected.body)
                let report = try await gateway.why(response, token: Self.token)
                let advice = try require(RejectionAdvice.table[rejected.reason])
                expect(report.reason, equals: rejected.reason, "\(report.text)")
                expect(report.cause == advice.cause && report.remedy == advice.remedy, "\(report.text)")
            }
        }
    }

    @Test("A malformed id, options that conflict, and no gateway are errors with what to do")
    func mistakes() async throws {
        let id = String(repeating: "0", count: 32)
        for (arguments, status, message) in [
            (["x"], 64, "has 32 hexadecimal digits (write the request_id"),
            ([id, "--admin", "http://127.0.0.1:9", "--control-socket", "/s"], 64, "conflicts with --control-socket"),
            ([id, "--admin", "ftp://127.0.0.1"], 64, "write --admin http://127.0.0.1:9464"),
            ([id, "--admin", "http://127.0.0.1:9"], 1, "no process listens on this address"),
            ([id, "--admin", "http://127.0.0.1:9"], 1, "if serve was started with it too\n"),
            ([id, "--control-socket", "/nowhere/control.sock"], 1, "there is no such file"),
        ] as [([String], Int32, String)] {
            let response = try await why(arguments)
            expect(response.ending, equals: ChildProgram.Ending(status: status), "\(arguments)")
            expect(response.errors.contains(message), "\(response.errors)")
        }
    }
}
