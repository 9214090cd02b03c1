import Foundation
import MockAPI
import TestSupport
import Testing

/// Responses to sign-ins that the API rejects, tested through the running program.
@Suite("Sign-ins that the API rejects", .serialized, .timeLimit(.minutes(3)))
struct RejectedSignInTests {
    private func running(
        set: [String] = [], _ body: (GatewayProcess, ScriptedServer) async throws -> Void
    ) async throws {
        try await ScriptedServer.run { port, upstream in
            let file = GatewayYAML(upstream: "http://127.0.0.1:\(port)")
            try await GatewayProcess.running(file, set: set) { gateway in try await body(gateway, upstream) }
        }
    }

    @Test("Rule 32: a wrong password is 401 with every rejection status of the API, and then 429")
    func rejected() async throws {
        try await running { gateway, upstream in
            let rejections = [
                ("400 Bad Request", #"{"error":"invalid_grant"}"#), ("400 Bad Request", "{}"),
                ("401 Unauthorized", "{}"),
                ("403 Forbidden", "{}"), ("422 Unprocessable Content", "{}"),
            ]
            for (status, body) in rejections {
                upstream.respond(to: "POST /auth", with: ScriptedServer.json(body, status: status))
                let response = try await gateway.client.signIn()
                #expect(response.status == 401, "\(status)")
                #expect(response.problem?.code == "unauthorized")
            }
            #expect(try await gateway.client.signIn().status == 429)
        }
    }

    @Test("Rule 32: a rejected API call is 502, counts as an attempt, and the log names what to check")
    func misconfigured() async throws {
        try await running { gateway, upstream in
            upstream.respond(to: "POST /auth", with: ScriptedServer.json("{}", status: "404 Not Found"))
            for _ in 0..<5 {
                let response = try await gateway.client.signIn()
                #expect(response.status == 502)
                #expect(response.problem?.code == "identity_misconfigured")
            }
            #expect(try await gateway.client.signIn().status == 429)
            _ = try await gateway.program.waits(for: "the line about it") { program in
                program.lines.contains { $0.contains("identity_misconfigured") && $0.contains("path") } ? true : nil
            }
            #expect(gateway.program.lines.count { $0.contains(#""event":"identity_misconfigured""#) } == 1)
        }
        try await running { gateway, upstream in
            upstream.respond(
                to: "POST /auth", with: ScriptedServer.json(#"{"error":"invalid_client"}"#, status: "401 Unauthorized"))
            let response = try await gateway.client.signIn()
            #expect(response.status == 502)
            #expect(response.problem?.code == "identity_misconfigured")
        }
    }

    @Test(
        "Rule 32: repeated sign-ins with the right password end at the configured limit"
    )
    func successes() async throws {
        try await GatewayProcess.running(set: ["accounts.signInsPerAddress=3"]) { gateway, mock in
            for _ in 0..<3 { #expect(try await gateway.client.signIn().status == 200) }
            let response = try await gateway.client.signIn()
            #expect(response.status == 429)
            #expect(response.problem?.code == "throttled")
            #expect(Int(response.values(of: "Retry-After").first ?? "").map { (1...600).contains($0) } == true)
            #expect(mock.observations.snapshot().count("POST", "/auth") == 3)
        }
    }

    @Test("Rule 31: forty bodies of nested brackets are rejected without delay, and /live responds meanwhile")
    func nested() async throws {
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            let body = String(repeating: "[", count: 505) + String(repeating: "]", count: 505)
            let time = try await ContinuousClock().measure {
                for _ in 0..<40 {
                    let response = try await client.send(
                        "POST", "/auth", [("Content-Type", "application/json")], body: body)
                    #expect(response.status == 400)
                }
            }
            #expect(time < .seconds(10))
            #expect(mock.observations.snapshot().total == 0)
        }
    }
}
