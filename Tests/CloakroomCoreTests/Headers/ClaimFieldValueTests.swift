import TestSupport
import Testing

@testable import CloakroomCore

@Suite("A claim in a field")
struct ClaimFieldValueTests {
    private func claim(_ json: String) throws -> JSONValue {
        try require(JSONValue(document: Array(json.utf8)))
    }

    @Test(
        "is written in visible ASCII",
        arguments: [
            (#""jo""#, "jo"), (#""Jö Doe""#, "J%C3%B6%20Doe"), (#""100%""#, "100%25"), (#""%41""#, "%2541"),
            (#""a,b""#, "a,b"), (#""a\r\nX-Admin: yes""#, "a%0D%0AX-Admin:%20yes"), (#""\u0000\u007f""#, "%00%7F"),
            (#""""#, ""), ("true", "true"), ("false", "false"), ("7", "7"), ("-7", "-7"), ("7.0", "7"), ("1e3", "1000"),
            ("9007199254740991", "9007199254740991"), ("-9007199254740991", "-9007199254740991"),
        ])
    func scalars(json: String, value: String) throws {
        expect(ClaimFieldValue.of(try claim(json)), equals: .value(value))
    }

    @Test("Identity rule 22: a group with a comma stays one")
    func groupWithACommaStaysOne() throws {
        let comma = UInt8(ascii: ",")
        expect(ClaimFieldValue.of(try claim(#"["a","b"]"#), separator: comma), equals: .value("a,b"))
        expect(ClaimFieldValue.of(try claim(#"["a,b"]"#), separator: comma), equals: .value("a%2Cb"))
        expect(ClaimFieldValue.of(try claim(#"["a%2Cb"]"#), separator: comma), equals: .value("a%252Cb"))
        expect(ClaimFieldValue.of(try claim(#"["a,b","c"]"#), separator: UInt8(ascii: "|")), equals: .value("a,b|c"))
        expect(ClaimFieldValue.of(try claim(#"["a",1,true]"#), separator: comma), equals: .value("a,1,true"))
    }

    @Test("Identity rule 22: a text with the join character is one group, like a list with it")
    func textWithACommaStaysOne() throws {
        let comma = UInt8(ascii: ",")
        expect(ClaimFieldValue.of(try claim(#""staff,admin""#), separator: comma), equals: .value("staff%2Cadmin"))
        expect(ClaimFieldValue.of(try claim(#"["staff,admin"]"#), separator: comma), equals: .value("staff%2Cadmin"))
        expect(ClaimFieldValue.of(try claim(#""staff""#), separator: comma), equals: .value("staff"))
        expect(ClaimFieldValue.of(try claim(#""a,b""#), separator: UInt8(ascii: "|")), equals: .value("a,b"))
        expect(ClaimFieldValue.of(try claim("-7"), separator: UInt8(ascii: "-")), equals: .value("%2D7"))
    }

    @Test("No claim is no field, and not an empty one")
    func absent() throws {
        expect(ClaimFieldValue.of(nil), equals: .absent)
        expect(ClaimFieldValue.of(.null), equals: .absent)
        expect(ClaimFieldValue.of(try claim("[]"), separator: UInt8(ascii: ",")), equals: .absent)
    }

    @Test(
        "An object, a list in a list and a list without a separator fail",
        arguments: [("{}", true), (#"[{"a":1}]"#, true), ("[[1]]", true), ("[null]", true), (#"["a"]"#, false)])
    func unsupported(json: String, hasSeparator: Bool) throws {
        expect(
            ClaimFieldValue.of(try claim(json), separator: hasSeparator ? UInt8(ascii: ",") : nil), equals: .unsupported
        )
    }

    @Test(
        "Identity rule 22: a number that another one could be taken for fails, also in a list",
        arguments: [
            "9007199254740992", "9007199254740993", "-9007199254740993", "12345678901234567890", "1e300", "1e999",
            "-1e999", "0.1", "0.1000000000000000055", "1e-999", "0.99999999999999999999",
        ])
    func inexact(json: String) throws {
        // A parser that rejects the number is as good.
        guard let number = JSONValue(document: Array(json.utf8)) else { return }
        expect(ClaimFieldValue.of(number), equals: .unsupported)
        expect(ClaimFieldValue.of(.array([.string("a"), number]), separator: UInt8(ascii: ",")), equals: .unsupported)
    }

    @Test("Different lists of texts have different values")
    func isInjective() {
        let texts = ["", "a", ",", "%", "%2C", "a,", ",a", "%25", "a%2C"]
        var seen: [String: [String]] = [:]
        for first in texts {
            for second in texts {
                let items = [first, second]
                let value = ClaimFieldValue.of(.array(items.map(JSONValue.string)), separator: UInt8(ascii: ","))
                guard case .value(let text) = value else {
                    Issue.record("\(items)")
                    continue
                }
                expect(seen.updateValue(items, forKey: text), equals: nil, "\(text)")
            }
        }
    }
}
