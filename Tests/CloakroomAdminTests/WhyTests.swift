import AsyncHTTPClient
import CloakroomCore
import Foundation
import NIOHTTP1
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("/why")
struct WhyTests {
    private static let token = "0123456789abcdef"
    private static let path = "/why?id=00000000000000070000000000000001"

    private static func serving(
        hasToken: Bool = true, _ body: @Sendable (_ address: String) async throws -> Void
    ) async throws {
        let handler = RevokeSessionsHandler(
            token: Secret(token), sessions: ScriptedRevoking(.success(1)), now: { SessionTime(seconds: 0) })
        try await RunningAdminServer.run(revocation: hasToken ? handler : nil, body)
    }

    private static func get(_ url: String, _ token: String? = nil) async throws -> (status: Int, body: String) {
        let fields = token.map { [("Authorization", "Bearer \($0)")] } ?? []
        let (response, body) = try await RunningAdminServer.send(.GET, url, fields)
        return (Int(response.status.code), String(decoding: body, as: UTF8.self))
    }

    @Test("Rule 68: requires the token even if other pages are open, and a configured one")
    func token() async throws {
        try await Self.serving { address in
            try await expect(Self.get(address + "/metrics").status, equals: 200)
            try await expect(Self.get(address + Self.path).status, equals: 401)
            try await expect(Self.get(address + Self.path, Self.token + "x").status, equals: 401)
            let found = try await Self.get(address + Self.path, Self.token)
            expect(found.status == 200 && found.body == "{\"held\":0}\n")
        }
        try await Self.serving(hasToken: false) { address in
            let rejected = try await Self.get(address + Self.path, Self.token)
            expect(rejected.status == 403 && rejected.body.contains("has no admin token"))
        }
    }

    @Test("An id that is malformed or missing is 400", arguments: ["/why", "/why?id=", "/why?id=x", "/why?ID=1"])
    func malformed(path: String) async throws {
        try await Self.serving { address in
            let rejected = try await Self.get(address + path, Self.token)
            expect(rejected.status == 400 && rejected.body.contains("32 hexadecimal digits"))
        }
    }
}
