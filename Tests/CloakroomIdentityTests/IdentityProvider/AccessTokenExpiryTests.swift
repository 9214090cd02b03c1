import CloakroomCore
import FoundationEssentials
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The lifetime of an access token")
struct AccessTokenExpiryTests {
    private let now = Upstreams.now

    private func jwt(_ payload: String) -> [UInt8] {
        let encoded = Data(payload.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
        return Array("eyJhbGciOiJIUzI1NiJ9.\(encoded).c2lnbmF0dXJl".utf8)
    }

    @Test("is the number of seconds in the response")
    func seconds() {
        expect(AccessTokenExpiry(seconds: .number(300), now: now), equals: .ends(now + .seconds(300)))
        expect(AccessTokenExpiry(seconds: .number(0.5), now: now), equals: .ends(now + .milliseconds(500)))
    }

    @Test("Rule 37: is parsed from a string that holds a number", arguments: ["3600", "3600.0", "3.6e3"])
    func text(text: String) {
        expect(AccessTokenExpiry(seconds: .string(text), now: now), equals: .ends(now + .seconds(3_600)))
    }

    @Test(
        "Rule 37: is unknown if the seconds are missing, negative or invalid: neither expired nor unlimited",
        arguments: [
            .number(0), .number(-1), .number(-1e300), .number(1e30), .number(1e300), .number(.infinity), .number(.nan),
            .string("0"), .string("-1"), .string("1e30"), .string(""), .string("an hour"), .string("3600s"),
            .string("0x10"), .string(#""3600""#), .string("[3600]"), .string(String(repeating: "1", count: 33)),
            .number(0.000_1), .bool(true), .array([]), .object([:]), .array([.number(3_600)]),
        ] as [JSONValue])
    func nonsenseSeconds(value: JSONValue) {
        let lifetime = AccessTokenExpiry(seconds: value, now: now)
        expect(lifetime, equals: .invalid)
        expect(lifetime.end, equals: nil)
    }

    @Test("is the token's exp, for payloads of any length")
    func exp() {
        for padding in 0..<4 {
            let payload = #"{"exp":1700000300,"sub":"\#(String(repeating: "ÿ", count: padding))?>"}"#
            expect(AccessTokenExpiry(jwt: jwt(payload), now: now), equals: .ends(now + .seconds(300)))
        }
        expect(AccessTokenExpiry(jwt: jwt(#"{"exp":"1700000300"}"#), now: now), equals: .ends(now + .seconds(300)))
    }

    @Test(
        "Rule 37: is unknown if exp is invalid or in the past",
        arguments: ["1700000000", "1600000000", "0", "-1", "1e300", "1e30", #""soon""#, "true", "[]", "253402300801"])
    func nonsenseExp(exp: String) {
        expect(AccessTokenExpiry(jwt: jwt(#"{"exp":\#(exp)}"#), now: now), equals: .invalid)
    }

    @Test(
        "is unknown for tokens that are no JWT or have no exp",
        arguments: [
            "", "opaque", "a.b", "a.b.c", "a.!!!!.c", "a.b.c.d", "..", "e30.e30.", "e30.WzFd.x",
            String(repeating: ".", count: 16_384),
        ])
    func unknown(token: String) {
        expect(AccessTokenExpiry(jwt: Array(token.utf8), now: now), equals: .unspecified)
        expect(AccessTokenExpiry(jwt: jwt(#"{"exp":null}"#), now: now), equals: .unspecified)
    }
}
