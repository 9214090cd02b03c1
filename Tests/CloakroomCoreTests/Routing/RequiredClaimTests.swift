import TestSupport
import Testing

@testable import CloakroomCore

@Suite("What is required of a claim")
struct RequiredClaimTests {
    /// - Parameter value: The claim `roles` as JSON; `nil` if the user has none.
    private static func isMet(_ required: RequiredClaim, _ value: String?) throws -> Bool {
        let text = value.map { #"{"roles":\#($0)}"# } ?? "{}"
        return required.isMet(by: try require(JSONValue(document: Array(text.utf8))))
    }

    @Test(
        "Identity rule 23: all values have to be there, each of them exactly",
        arguments: [
            (#"["b","x","a"]"#, true), (#"["a","b",1,null]"#, true), (#"["a"]"#, false), (#""a""#, false),
            (#"["a","a"]"#, false), (#"["A","b"]"#, false), (#"["a",["b"]]"#, false), (#"["a,b"]"#, false),
            (#"{"a":true,"b":true}"#, false), ("[]", false), ("null", false), (nil, false),
        ] as [(String?, Bool)])
    func all(value: String?, isMet: Bool) throws {
        try expect(Self.isMet(RequiredClaim("roles", all: ["a", "b"]), value), equals: isMet)
        // A list with an acceptable value does not help.
        try expect(Self.isMet(RequiredClaim("roles", in: ["a", "b"], all: ["a", "b"]), value), equals: isMet)
    }

    @Test(
        "Identity rule 29: none is met by a claim that is there, without any of the values",
        arguments: [
            ("[]", true), (#""a""#, true), (#"["a","Suspended","suspended "]"#, true), ("false", true), (#""""#, true),
            (#""suspended""#, false), (#"["a","suspended"]"#, false), ("true", false), (#"["true"]"#, false),
        ])
    func none(value: String, isMet: Bool) throws {
        try expect(Self.isMet(RequiredClaim("roles", none: ["suspended", "true"]), value), equals: isMet)
    }

    @Test(
        "Identity rule 29: a claim that is absent, or of a type that equals no value, does not meet none",
        arguments: [
            nil, "null", "{}", "1", #"["a",1]"#, #"["a",null]"#, #"[["suspended"]]"#, #"{"suspended":true}"#,
        ])
    func absentClaimMeetsNoNone(value: String?) throws {
        try expect(!Self.isMet(RequiredClaim("roles", none: ["suspended"]), value))
        try expect(!Self.isMet(RequiredClaim("/roles/inner", none: ["suspended"]), value))
    }

    @Test("Each part has to be met", arguments: [("buyer", true), ("editor", true), ("viewer", false)])
    func parts(role: String, isMet: Bool) throws {
        let required = RequiredClaim("roles", in: ["buyer", "editor"], all: ["eu"], none: ["suspended"])
        try expect(Self.isMet(required, #"["\#(role)","eu"]"#), equals: isMet)
        try expect(!Self.isMet(required, #"["\#(role)"]"#))
        try expect(!Self.isMet(required, #"["\#(role)","eu","suspended"]"#))
    }

    @Test("Thousands of groups are compared with all values of each part in linear time")
    func manyItems() throws {
        let values = (0..<1_000).map { "value-\($0)" }
        let required = RequiredClaim("roles", in: values, all: values, none: values.map { "other-\($0)" })
        let groups = (values + (0..<2_000).map { "group-\($0)" }).map { "\"\($0)\"" }.joined(separator: ",")
        let clock = ContinuousClock()
        var fastest = Duration.seconds(60)
        for _ in 0..<3 {
            let claims = try require(JSONValue(document: Array(#"{"roles":[\#(groups)]}"#.utf8)))
            let start = clock.now
            let isMet = required.isMet(by: claims)
            fastest = min(fastest, clock.now - start)
            expect(isMet)
        }
        #expect(fastest < .seconds(1))
    }
}
