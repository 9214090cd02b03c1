import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Claim fields: another method, path, address or user")
struct SpoofableFieldsTests {
    private let policy = RequestHeaderPolicy(
        injectable: ["X-Remote-Token"], cookie: SessionCookie(CookieConfiguration()))

    static let claims = [
        "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL",
        "X-Original-Host", "X-Host", "X-HTTP-Host-Override", "Client-IP", "X-Client-IP", "True-Client-IP",
        "X-Cluster-Client-IP",
        "CF-Connecting-IP", "Fastly-Client-IP", "Remote-User", "Remote-Groups", "X-Remote-User", "X-Remote-Extra-a",
        "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Access-Token",
        "X-Auth-Request-User", "X-Auth-Request-", "X-Authenticated-User", "X-WebAuth-User", "X-Authentik-Username",
        "X-Goog-Authenticated-User-Email", "X-MS-Client-Principal", "X-MS-Client-Principal-Name",
        "X-Amzn-Oidc-Identity", "Cf-Access-Authenticated-User-Email", "SSL-Client-Cert", "SSL-Client-S-DN",
        "X-SSL-Client-Verify", "X-TLS-Client-Cert", "X-Client-Cert", "X-Client-Certificate", "Client-Cert",
        "X-Forwarded-Client-Cert", "X-User-Id", "X-Userinfo", "X-Id-Token", "X-Access-Token", "X-JWT-Assertion",
        "X-Envoy-External-Address", "X-Envoy-Original-Path", "X-Forwarded", "Script-Name", "Path-Info",
        "OIDC-Claim-Sub", "OIDC-Access-Token", "DPoP",
    ]

    @Test("Rule 43: they are removed in any spelling and for all peers, in heads and in trailers", arguments: claims)
    func removed(name: String) throws {
        let trailers = TrailerPolicy(injectable: [])
        for spelling in [name, name.lowercased(), name.uppercased(), name.replacing("-", with: "_")] {
            for isTrusted in [false, true] {
                var head = try RequestHead.with("A: b", "\(spelling): c", "D: e")
                _ = policy.apply(&head, isTrusted: isTrusted)
                expect(head.kept, equals: ["A: b", "D: e"], "\(spelling)")
            }
            let section = try TrailerSection(lines: ByteBuffer(string: "\(spelling): c\r\nA: b\r\n"))
            expect(String(buffer: trailers.filter(section)), equals: "A: b\r\n", "\(spelling)")
        }
        expect(SpoofableFields.contains(name))
    }

    @Test(
        "Rule 43: similar names are forwarded",
        arguments: [
            "X-HTTP", "X-HTTP-Method-Overrides", "Remote", "X-Remote", "SSL-Client", "X-Auth-Request", "Client-IPs",
            "X-Clients-IP", "Cf-Ray", "X-Requested-With", "X-CSRF", "X-Client-Version", "X-Original",
            "X-User-Agent", "X-Envoy", "OIDC", "Script", "Path", "X-Access",
        ])
    func lookalikes(name: String) throws {
        var head = try RequestHead.with("\(name): a")
        _ = policy.apply(&head, isTrusted: false)
        expect(head.kept, equals: ["\(name): a"])
        expect(!SpoofableFields.contains(name))
    }

    private func passed(_ names: [String], _ lines: String...) throws -> [String] {
        var head = try RequestHead.with(lines: lines)
        _ = policy.apply(&head, isTrusted: false)
        policy.passOn(names.map { Array($0.utf8) }, in: &head)
        return head.kept
    }

    @Test("Rule 43: only fields that a route lists are forwarded, in the listed spelling")
    func listed() throws {
        try expect(
            passed(
                ["x-http-method-override"], "X-HTTP-Method-Override: PUT", "x_http_method_override: DELETE",
                "X-HTTP-Method: PUT", "Remote-User: a", "Authorization: b", "A: c"),
            equals: ["X-HTTP-Method-Override: PUT", "A: c"])
    }

    @Test("Rule 43: a list cannot contain fields that the gateway sets or that Connection names")
    func notListable() throws {
        try expect(passed(["x-remote-token"], "X-Remote-Token: a", "A: b"), equals: ["A: b"])
        try expect(passed(["x-client-cert-subject"], "X-Client-Cert-Subject: a", "A: b"), equals: ["A: b"])
        try expect(
            passed(["x-host"], "Connection: x-host", "X-Host: a", "Connection: b", "A: b"), equals: ["A: b"])
    }

    @Test("A set finds its names among those of each length, in any spelling")
    func lengths() {
        let names = (1...80).flatMap { length in ["x", "y"].map { $0 + String(repeating: "-", count: length - 1) } }
        let set = FieldNameSet(names.filter { $0.utf8.count % 3 != 0 })
        var positions: Set<Int> = []
        for name in names {
            let spelling = name.split(separator: "-", omittingEmptySubsequences: false).joined(separator: "_")
            let position = set.index(of: spelling.uppercased())
            expect(position != nil, equals: name.utf8.count % 3 != 0, "\(name)")
            expect(set.contains(spelling), equals: position != nil, "\(name)")
            if let position { positions.insert(position) }
        }
        expect(positions, equals: Set(0..<108))
        expect(set.index(of: "z-"), equals: nil)
        expect(set.index(of: ""), equals: nil)
    }

    @Test("A set matches names whose first character folds to a hyphen")
    func oddNames() {
        let set = FieldNameSet(["_Token", "-Other"], prefixes: ["_a"])
        for name in ["_token", "-TOKEN", "~token", "!other", ".Abc", "-a"] { expect(set.contains(name), "\(name)") }
        for name in ["token", "atoken", "", "-", "b-a"] { expect(!set.contains(name), "\(name)") }
    }
}
