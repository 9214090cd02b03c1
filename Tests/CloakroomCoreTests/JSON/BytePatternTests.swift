import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The search for a token")
struct BytePatternTests {
    @Test("finds each occurrence and nothing else")
    func agrees() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<5_000 {
            // An alphabet of two letters causes many partial matches.
            let text = (0..<Int.random(in: 0...24, using: &generator)).map { _ in
                UInt8.random(in: 0...1, using: &generator)
            }
            let pattern = (0..<Int.random(in: 1...6, using: &generator)).map { _ in
                UInt8.random(in: 0...1, using: &generator)
            }
            let isThere = text.indices.contains { text[$0...].starts(with: pattern) }
            expect(BytePattern(pattern).occurs(in: text), equals: isThere, "\(pattern) in \(text)")
        }
    }

    @Test("Rule 31: costs the sum of the two lengths, not their product")
    func linear() {
        // A search that restarts after each mismatch would compare 2^28 bytes here: minutes in a build without
        // optimization.
        let text = [UInt8](repeating: 1, count: 32_768)
        let pattern = [UInt8](repeating: 1, count: 16_383) + [2]
        let time = ContinuousClock().measure { expect(!BytePattern(pattern).occurs(in: text)) }
        #expect(time < .seconds(2))
    }
}
