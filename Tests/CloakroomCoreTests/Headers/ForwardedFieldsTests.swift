import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Fields that other proxies replace")
struct ForwardedFieldsTests {
    private static let fixed = ["Authorization", "Cookie", "X-Client-Cert-Subject"]

    private static func claims(_ count: Int) -> [String] { (0..<count).map { "X-C-\($0)" } }

    private static func fields(claims count: Int) -> ForwardedFields {
        var configuration = GatewayConfiguration.defaults
        var upstream = UpstreamConfiguration(name: "api", targets: [])
        upstream.claimHeaders = claims(count).map { ClaimHeader($0, claim: "sub") }
        configuration.upstreams = [upstream]
        return ForwardedFields(configuration)
    }

    // 32 combinations of fields, twice, are more than are kept. With 70 names none is.
    @Test("A response lacks exactly the names that it does not have, in each combination", arguments: [5, 70])
    func missing(_ count: Int) {
        let fields = Self.fields(claims: count)
        let names = (Self.fixed + Self.claims(count)).sorted()
        for combination in 0..<64 {
            let present = (0..<5).filter { combination % 32 >> $0 & 1 != 0 }.map { "X-C-\($0)" } + ["Cookie"]
            let own = Array(present.map { "\($0): a: X-C-9\r\n" }.joined().utf8)
            let empty = names.filter { !present.contains($0) }
            let lines = empty.map { "\($0): \r\n" }.joined()
            let list = "x-envoy-auth-headers-to-remove: \(empty.joined(separator: ","))\r\n"
            for (isEnvoy, expected) in [(false, lines), (true, lines + list)] {
                let missing = fields.missing(in: own.span, forEnvoy: isEnvoy)
                expect(String(decoding: missing, as: UTF8.self), equals: expected + "Cache-Control: no-store\r\n")
            }
        }
    }

    @Test("A response with all names lacks only Cache-Control, and lists nothing for Envoy")
    func complete() {
        let own = Array(Self.fixed.map { "\($0): a\r\n" }.joined().utf8)
        let missing = Self.fields(claims: 0).missing(in: own.span, forEnvoy: true)
        expect(String(decoding: missing, as: UTF8.self), equals: "Cache-Control: no-store\r\n")
    }

    @Test("Rule 147: a character other than letters, digits and hyphens is found at each position")
    func otherCharacters() {
        for count in 1...20 {
            let name = [UInt8](repeating: UInt8(ascii: "a"), count: count)
            for position in name.indices {
                for byte in UInt8.min...UInt8.max {
                    var other = name
                    other[position] = byte
                    let isOrdinary = Byte.isLetterOrDigit(byte) || byte == UInt8(ascii: "-")
                    // With bytes before and after it.
                    let bytes = [0x2e] + other + [0x2e]
                    let range = ByteRange(start: 1, count: count)
                    if ForwardedFields.hasOnlyHyphens(bytes.span, range) != isOrdinary {
                        Issue.record("\(byte) at \(position) of \(count)")
                    }
                }
            }
        }
    }

    @Test("Rule 111: each of the names is rejected in any spelling, and no other", arguments: [5, 70])
    func rejected(_ count: Int) throws {
        let fields = Self.fields(claims: count)
        for name in Self.claims(count) + ["X-Client-Cert-Subject"] + SpoofableFields.overrides {
            for spelling in [name, name.lowercased(), name.split(separator: "-").joined(separator: "_").uppercased()] {
                let head = try RequestHead.with("A: b", "\(spelling): c")
                let isRejected = fields.rejects(head)
                expect(isRejected, "\(spelling)")
            }
        }
        let others = ["X-C: a", "X-C-100: a", "Y-C-1: a", "Authorization: a", "Cookie: a=b", "X-Cookie: a"]
        let head = try RequestHead.with(lines: others)
        let isRejected = fields.rejects(head)
        expect(!isRejected)
    }
}
