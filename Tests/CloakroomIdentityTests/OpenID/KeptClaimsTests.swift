import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("The claims that a session keeps")
struct KeptClaimsTests {
    private static let claims = """
        {"name":{"first":"Jo","last":"canary-access-token-0123456789"},"realm_access":{"roles":["buyer"],"other":1},"sub":"jo",
        "resource_access":{"a/b":{"roles":["editor"],"x":true},"shop":{"roles":[]},"none":null},"https://x/roles":["y"]}
        """

    private func kept(_ names: [String], bytes: Int = 400, without token: String = "access") throws -> String {
        guard case .object(let claims)? = JSONValue(document: Array(Self.claims.utf8)) else { return "" }
        let tokens = TokenSet(
            authorization: Secret("Bearer \(token)"), refreshToken: nil, accessTokenExpiresAt: nil,
            obtainedAt: WallTime(seconds: 1_800_000_000))
        let document = try KeptClaims.select(
            from: claims, .init(claims: try names.map { try require(ClaimName($0)) }, bytes: bytes), without: tokens)
        return String(decoding: document, as: UTF8.self)
    }

    @Test(
        "Identity rule 28: a claim within objects stays within them, without its neighbours",
        arguments: [
            (["/realm_access/roles"], #"{"realm_access":{"roles":["buyer"]}}"#),
            (
                ["/resource_access/shop/roles", "/realm_access/roles", "/resource_access/a~1b/roles"],
                #"{"resource_access":{"a/b":{"roles":["editor"]},"shop":{"roles":[]}},"realm_access":{"roles":["buyer"]}}"#
            ),
            (["realm_access", "/realm_access/roles"], #"{"realm_access":{"other":1,"roles":["buyer"]}}"#),
            (["/realm_access/roles", "realm_access"], #"{"realm_access":{"other":1,"roles":["buyer"]}}"#),
            (["https://x/roles", "/sub"], #"{"https://x/roles":["y"],"sub":"jo"}"#),
            (["sub", "/sub", "sub"], #"{"sub":"jo"}"#),
            (["/name/middle", "/realm_access/roles/0", "/resource_access/none", "/sub/a", "realm_access.roles"], "{}"),
        ] as [([String], String)])
    func shape(names: [String], document: String) throws {
        try expect(kept(names), equals: document)
    }

    @Test("The limit is that of the kept part, and a token in it fails the login")
    func limits() throws {
        let document = #"{"realm_access":{"roles":["buyer"]}}"#
        try expect(kept(["/realm_access/roles"], bytes: document.utf8.count), equals: document)
        #expect(throws: ResponseDefect.claimsTooLarge) {
            try kept(["/realm_access/roles"], bytes: document.utf8.count - 1)
        }
        let token = "canary-access-token-0123456789"
        #expect(throws: ResponseDefect.invalidResponse) { try kept(["/name/last"], without: token) }
        try expect(kept(["/name/first"], without: token), equals: #"{"name":{"first":"Jo"}}"#)
    }
}
