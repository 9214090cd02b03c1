import TestSupport
import Testing

@testable import CloakroomConfig

@Suite struct ValueFormatTests {
    @Test(arguments: [
        ("500ms", Duration.milliseconds(500), "500ms"), ("15m", .seconds(900), "15m"), ("8h", .seconds(28_800), "8h"),
        ("1d", .seconds(86_400), "1d"), ("1h30m", .seconds(5_400), "1h30m"), ("90s", .seconds(90), "1m30s"),
        ("1s1ms", .milliseconds(1_001), "1s1ms"), ("0s", .zero, "0s"),
    ])
    func durationsAreReadAndRendered(_ text: String, _ duration: Duration, _ rendered: String) throws {
        let format = ValueFormat<Duration>.duration(.zero ... .seconds(86_400))
        try expect(format.parse(text), equals: duration)
        expect(format.render(duration), equals: rendered)
    }

    @Test(arguments: [
        "", "s", "1", "1.5h", "-1s", "1 s", "1S", "30m1h", "1h1h", "1h30", "1w", "1ss", "9223372036854775807d",
        "99999999999999999999s", "٣s",
    ])
    func otherTextsAreNoDurations(_ text: String) {
        #expect(throws: ConfigValueError.self) {
            try ValueFormat<Duration>.duration(.zero ... .seconds(86_400)).parse(text)
        }
    }

    @Test(arguments: [
        ("0", 0, "0"), ("1000", 1_000, "1000"), ("16KiB", 16_384, "16KiB"), ("10MiB", 10_485_760, "10MiB"),
        ("2048", 2_048, "2KiB"), ("1 GiB", 1 << 30, "1GiB"), ("1TiB", 1 << 40, "1TiB"), ("7B", 7, "7"),
    ])
    func sizesAreReadAndRendered(_ text: String, _ bytes: Int, _ rendered: String) throws {
        let format = ValueFormat<Int>.size(0...(1 << 40))
        try expect(format.parse(text), equals: bytes)
        expect(format.render(bytes), equals: rendered)
    }

    @Test(arguments: ["", "KiB", "1KB", "1kib", "-1", "1.5MiB", "9223372036854775807KiB", "0x10"])
    func otherTextsAreNoSizes(_ text: String) {
        #expect(throws: ConfigValueError.self) { try ValueFormat<Int>.size(0...(1 << 40)).parse(text) }
    }

    @Test func controlCharactersDoNotBreakALineOfAReport() {
        expect("a\nb\u{1b}[0m".quoted, equals: "\"a\\u{a}b\\u{1b}[0m\"")
        expect(String(repeating: "x", count: 100).quoted.count, equals: 82)
    }

    @Test(arguments: [
        ("idleTimout", "idleTimeout"), ("nmae", "name"), ("PATH", "path"), ("xyz", nil), ("", nil), ("ab", nil),
        ("auth", nil), ("pth", "path"), ("version", nil), ("esssion", "session"),
    ])
    func theNearestNameIsFound(_ name: String, _ nearest: String?) {
        let names = ["idleTimeout", "name", "path", "absoluteTimeout", "session"]
        expect(NameSuggestion.nearest(to: name, among: names), equals: nearest)
    }

    @Test("A list of names has those first that begin like the unknown one, and states how many it leaves out")
    func listedNames() {
        let names = (10..<32).map { "key\($0)" } + ["require", "requiresAuthorization", "Requests"]
        let listed = NameSuggestion.suggestion(for: "requireAuth", among: names)
        expect(listed.hasPrefix("write one of: require, requiresAuthorization, Requests, key10, "), "\(listed)")
        expect(listed.hasSuffix(", key26 … and 5 more"), "\(listed)")
        let only = NameSuggestion.suggestion(for: "requiresAuth", among: names)
        expect(only, equals: #"did you mean "requiresAuthorization"?"#)
        let few = NameSuggestion.suggestion(for: "unlike", among: ["one", "two"])
        expect(few, equals: "write one of: one, two")
    }
}
