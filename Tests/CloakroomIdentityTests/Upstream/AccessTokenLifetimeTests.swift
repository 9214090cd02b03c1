import CloakroomCore
import FoundationEssentials
import Testing

@testable import CloakroomIdentity

@Suite("The lifetime of an access token")
struct AccessTokenLifetimeTests {
    private let now = Upstreams.now

    private func jwt(_ payload: String) -> [UInt8] {
        let encoded = Data(payload.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
        return Array("eyJhbGciOiJIUzI1NiJ9.\(encoded).c2lnbmF0dXJl".utf8)
    }

    @Test("is the seconds that the answer tells")
    func seconds() {
        #expect(AccessTokenLifetime.end(ofSeconds: .number(300), now: now) == now + .seconds(300))
        #expect(AccessTokenLifetime.end(ofSeconds: .number(0.5), now: now) == now + .milliseconds(500))
    }

    @Test(
        "is over when the seconds are none, negative, or nonsense, and never for ever",
        arguments: [
            .number(0), .number(-1), .number(-1e300), .number(1e300), .number(.infinity), .number(.nan), .string("300"),
            .bool(true), .array([]), .object([:]),
        ] as [JSONValue])
    func nonsenseSeconds(value: JSONValue) {
        #expect(AccessTokenLifetime.end(ofSeconds: value, now: now) == now)
    }

    @Test("is the token's exp, for payloads of any length")
    func exp() {
        for padding in 0..<4 {
            let payload = #"{"exp":1700000300,"sub":"\#(String(repeating: "ÿ", count: padding))?>"}"#
            #expect(AccessTokenLifetime.end(ofJWT: jwt(payload), now: now) == now + .seconds(300))
        }
    }

    @Test(
        "is over when exp has passed or is nonsense",
        arguments: ["1700000000", "1600000000", "0", "-1", "1e300", #""1700000300""#, "true", "[]", "253402300801"])
    func nonsenseExp(exp: String) {
        #expect(AccessTokenLifetime.end(ofJWT: jwt(#"{"exp":\#(exp)}"#), now: now) == now)
    }

    @Test(
        "is not known of what is no JWT or does not tell",
        arguments: ["", "opaque", "a.b", "a.b.c", "a.!!!!.c", "a.b.c.d", "..", "e30.e30.", "e30.WzFd.x"])
    func unknown(token: String) {
        #expect(AccessTokenLifetime.end(ofJWT: Array(token.utf8), now: now) == nil)
        #expect(AccessTokenLifetime.end(ofJWT: jwt(#"{"exp":null}"#), now: now) == nil)
    }
}
