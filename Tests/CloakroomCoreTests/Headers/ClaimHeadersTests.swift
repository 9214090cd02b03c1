import CloakroomWire
import NIOCore
import Testing

@testable import CloakroomCore

@Suite("Claim headers")
struct ClaimHeadersTests {
    private static func lines(_ claims: String, _ headers: ClaimHeader...) throws -> [String]? {
        let set = try #require(ClaimHeaders(UpstreamConfiguration(name: "a", targets: [], claimHeaders: headers)))
        let fields = SessionClaims(ProviderFixture.provenance(claims: claims)).fields(for: set)
        if fields.unrepresentable != nil {
            #expect(fields.lines.isEmpty)
            return nil
        }
        return String(decoding: fields.lines, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
            .dropLast().map(String.init)
    }

    @Test("Identity rule 22: every claim that the user has is a field, in the order of the configuration")
    func fields() throws {
        #expect(
            try Self.lines(
                #"{"email":"a@b.c","admin":true,"level":3,"name":"J\u00f6 %"}"#, .init("X-User", claim: "sub"),
                .init("X-Mail", claim: "email"), .init("X-Admin", claim: "admin"), .init("X-Level", claim: "level"),
                .init("X-Name", claim: "name"), .init("X-Phone", claim: "phone"))
                == [
                    "X-User: u1", "X-Mail: a@b.c", "X-Admin: true", "X-Level: 3", "X-Name: J%C3%B6%20%25",
                ])
    }

    @Test("Identity rule 22: a group with a comma stays one group, and no claim ends a line")
    func groupWithACommaStaysOne() throws {
        let groups = ClaimHeader("X-Groups", claim: "groups", separator: UInt8(ascii: ","))
        #expect(try Self.lines(#"{"groups":["a,b","c","d%2Ce"]}"#, groups) == ["X-Groups: a%2Cb,c,d%252Ce"])
        #expect(
            try Self.lines(#"{"groups":["a\r\nX-Admin: true","\u0000"]}"#, groups)
                == ["X-Groups: a%0D%0AX-Admin:%20true,%00"])
        let other = ClaimHeader("X-Groups", claim: "groups", separator: UInt8(ascii: "|"))
        #expect(try Self.lines(#"{"groups":["a,b","c|d"]}"#, other) == ["X-Groups: a,b|c%7Cd"])
    }

    @Test("No claim, no field", arguments: ["{}", #"{"groups":null}"#, #"{"groups":[]}"#, #"{"groups":""}"#])
    func absent(claims: String) throws {
        #expect(try Self.lines(claims, .init("X-Groups", claim: "groups", separator: UInt8(ascii: ","))) == [])
    }

    @Test(
        "A claim that a field cannot contain leaves no fields at all",
        arguments: [#"{"a":{}}"#, #"{"a":[["b"]]}"#, #"{"a":["b"]}"#])
    func unrepresentable(claims: String) throws {
        #expect(try Self.lines(claims, .init("X-User", claim: "sub"), .init("X-A", claim: "a")) == nil)
    }

    @Test("The fields of a user have at most 16 KiB in total")
    func length() throws {
        func lines(_ count: Int) throws -> [String]? {
            try Self.lines(
                "{\"a\":\"\(String(repeating: "x", count: count))\"}", .init("X-A", claim: "a"),
                .init("X-B", claim: "a"))
        }
        let most = (ClaimHeaders.maxLength - 2 * "X-A: \r\n".utf8.count) / 2
        #expect(try lines(most)?.count == 2)
        #expect(try lines(most + 1) == nil)
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
        #expect(unrepresentable("{}") == nil)
        #expect(unrepresentable(#"{"groups":["a","b"],"address":"x","other":{}}"#) == nil)
        #expect(unrepresentable(#"{"address":{"street":"x"}}"#) == "address")
        #expect(unrepresentable(#"{"groups":[["a"]],"address":{}}"#) == "groups")
        #expect(unrepresentable("no JSON") == nil)
    }

    private static let spellings = [
        "X-User", "x-user", "X_USER", "x_user", "X.User", "X~User", "x-USER", "X_Groups", "x-groups",
    ]

    @Test("Identity rule 22: a client's copy dies on every route, in any spelling", arguments: [false, true])
    func spoofedClaimHeaderDies(isTrusted: Bool) throws {
        let configuration = ProviderFixture.configuration {
            $0.upstreams[1].claimHeaders = [.init("X-User", claim: "sub")]
            $0.upstreams[2].claimHeaders = [.init("X-Groups", claim: "groups")]
        }
        let names = configuration.claimHeaderNames
        #expect(names == ["X-User", "X-Groups"])
        let policy = RequestHeaderPolicy(injectable: names, cookie: SessionCookie(CookieConfiguration()))
        var head = try RequestHead.with(lines: Self.spellings.map { "\($0): admin" } + ["X-Users: 1", "X-Us: 2"])
        _ = policy.apply(&head, isTrusted: isTrusted)
        #expect(head.kept == ["X-Users: 1", "X-Us: 2"])
        // A route cannot pass it on either.
        policy.passOn(Self.spellings.map { Array($0.lowercased().utf8) }, in: &head)
        #expect(head.kept == ["X-Users: 1", "X-Us: 2"])
    }

    @Test("Identity rule 22: a client's copy dies in trailers, and no page may send it")
    func trailersAndPages() throws {
        let trailers = TrailerPolicy(injectable: [], others: ["X-User", "X-Groups"])
        let section = try TrailerSection(
            lines: ByteBuffer(string: Self.spellings.map { "\($0): admin\r\n" }.joined() + "X-Sum: 1\r\n"))
        #expect(String(buffer: trailers.filter(section)) == "X-Sum: 1\r\n")
        // Responses may repeat the field: it is no secret.
        var removed = RemovedResponseFields()
        _ = trailers.filter(section, without: .none, removed: &removed)
        #expect(removed.isEmpty)
        let cors = CORSPolicy(
            CrossSiteConfiguration(corsOrigins: ["https://app.example.com"]), injectable: ["X-User", "X-Groups"])
        var head = try RequestHead.with(
            lines: [
                "Host: a", "Origin: https://app.example.com", "Access-Control-Request-Method: GET",
                "Access-Control-Request-Headers: \((Self.spellings + ["X-Sum"]).joined(separator: ", "))",
            ], start: "OPTIONS /a HTTP/1.1")
        let policy = RequestHeaderPolicy(injectable: [], cookie: SessionCookie(CookieConfiguration()))
        let summary = policy.apply(&head, isTrusted: false)
        let lines = cors.preflightLines(cors.matchOrigin(of: head, summary: summary), head, methods: "GET")
        #expect(String(decoding: lines, as: UTF8.self).contains("Access-Control-Allow-Headers: X-Sum\r\n"))
    }
}
