import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Claim headers")
struct ClaimHeadersTests {
    private static func lines(_ claims: String, _ headers: ClaimHeader...) throws -> [String]? {
        let set = try require(ClaimHeaders(UpstreamConfiguration(name: "a", targets: [], claimHeaders: headers)))
        let fields = SessionClaims(ProviderFixture.provenance(claims: claims)).fields(for: set)
        if fields.unrepresentable != nil {
            expect(empty: fields.lines)
            return nil
        }
        return String(decoding: fields.lines, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
            .dropLast().map(String.init)
    }

    @Test("Identity rule 22: every claim that the user has is a field, in the order of the configuration")
    func fields() throws {
        try expect(
            Self.lines(
                #"{"email":"a@b.c","admin":true,"level":3,"name":"J\u00f6 %"}"#, .init("X-User", claim: "sub"),
                .init("X-Mail", claim: "email"), .init("X-Admin", claim: "admin"), .init("X-Level", claim: "level"),
                .init("X-Name", claim: "name"), .init("X-Phone", claim: "phone")),
            equals: [
                "X-User: u1", "X-Mail: a@b.c", "X-Admin: true", "X-Level: 3", "X-Name: J%C3%B6%20%25",
            ])
    }

    @Test("No claim, no field", arguments: ["{}", #"{"groups":null}"#, #"{"groups":[]}"#, #"{"groups":""}"#])
    func absent(claims: String) throws {
        try expect(Self.lines(claims, .init("X-Groups", claim: "groups", separator: UInt8(ascii: ","))), equals: [])
    }

    @Test(
        "A claim that a field cannot contain leaves no fields at all",
        arguments: [#"{"a":{}}"#, #"{"a":[["b"]]}"#, #"{"a":["b"]}"#])
    func unrepresentable(claims: String) throws {
        try expect(Self.lines(claims, .init("X-User", claim: "sub"), .init("X-A", claim: "a")), equals: nil)
    }

    @Test("The fields of a user have at most 16 KiB in total")
    func length() throws {
        func lines(_ count: Int) throws -> [String]? {
            try Self.lines(
                "{\"a\":\"\(String(repeating: "x", count: count))\"}", .init("X-A", claim: "a"),
                .init("X-B", claim: "a"))
        }
        let most = (ClaimHeaders.maxLength - 2 * "X-A: \r\n".utf8.count) / 2
        try expect(lines(most)?.count, equals: 2)
        try expect(lines(most + 1), equals: nil)
    }

    @Test("A sign-in fails with the name of a claim that a claim header of any upstream cannot contain")
    func signIn() {
        let upstreams = [
            UpstreamConfiguration(name: "a", targets: []),
            UpstreamConfiguration(
                name: "b", targets: [],
                claimHeaders: [
                    .init("X-User", claim: "sub"), .init("X-G", claim: "groups", separator: UInt8(ascii: ",")),
                ]),
            UpstreamConfiguration(name: "c", targets: [], claimHeaders: [.init("X-Address", claim: "address")]),
        ]
        func unrepresentable(_ claims: String) -> String? {
            ClaimHeaders.unrepresentableClaim(of: ProviderFixture.provenance(claims: claims), upstreams: upstreams)
        }
        expect(unrepresentable("{}"), equals: nil)
        expect(unrepresentable(#"{"groups":["a","b"],"address":"x","other":{}}"#), equals: nil)
        expect(unrepresentable(#"{"address":{"street":"x"}}"#), equals: "address")
        expect(unrepresentable(#"{"groups":[["a"]],"address":{}}"#), equals: "groups")
        expect(unrepresentable("no JSON"), equals: nil)
    }
}
