import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("The cache of response lines")
struct ResponseLineCacheTests {
    private let encoder = TestEncoder()

    /// Two lines whose hashes select the same slot.
    private static func colliding() throws -> (String, String) {
        let slot = slot("x: 0")
        let other = try require((1..<100_000).lazy.map { "x: \($0)" }.first { Self.slot($0) == slot })
        return ("x: 0", other)
    }

    private static func slot(_ line: String) -> Int {
        let bytes = Array(line.utf8)
        return CachedLines.slot(LineHash.hash(bytes.span, from: 0, count: bytes.count))
    }

    @Test("Lines with the same slot replace each other, and are never confused")
    func collisions() throws {
        let (first, second) = try Self.colliding()
        for _ in 0..<5 {
            for line in [first, first, second, second, first, second] {
                try expect(encoder.send(status: nil, lines: line + "\r\n"), equals: [line.replacing(": ", with: "=")])
            }
        }
    }

    @Test("Similar lines are spread over the slots")
    func spread() {
        for format in ["x-header-#: value", "x: #", "#: x", "cache-control: public, max-age=#, immutable"] {
            let slots = Set((0..<256).map { Self.slot(format.replacing("#", with: "\($0)")) })
            // The expected number of random slots is 162.
            #expect(slots.count > 140, "\(format)")
        }
    }

    @Test("Lines that differ only in a byte, in its place or in the case of the value are different")
    func similar() throws {
        let lines = ["a: bcdefghij", "a: bcdefghiJ", "a: Bcdefghij", "ab: cdefghij", "a: bcdefghi", "a: bcdefghij "]
        for _ in 0..<5 {
            for line in lines {
                let expected = line.replacing(": ", with: "=").trimmingSuffix(" ")
                try expect(encoder.send(status: nil, lines: line + "\r\n"), equals: [expected])
            }
        }
    }

    @Test("The same line with other case or white space is the same entry of the table")
    func forms() throws {
        for _ in 0..<5 {
            for line in ["abc: d", "Abc: d", "ABC:d", "abc:\t d "] {
                try expect(encoder.send(status: nil, lines: line + "\r\n"), equals: ["abc=d"])
            }
        }
        expect(encoder.tableLines, equals: ["abc: d\r\n"])
    }
}

extension String {
    fileprivate func trimmingSuffix(_ character: Character) -> String {
        last == character ? String(dropLast()) : self
    }
}
