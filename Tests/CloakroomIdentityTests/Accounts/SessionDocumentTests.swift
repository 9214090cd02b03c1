import CloakroomCore
import Testing

@testable import CloakroomIdentity

@Suite("The documents about sessions")
struct SessionDocumentTests {
    @Test("Times that no clock has are the first and the last that clients can parse")
    func times() {
        #expect(SessionDocument.iso8601(SessionTime(milliseconds: 1_700_000_000_000)) == "2023-11-14T22:13:20Z")
        for late in [253_402_300_800_000, Int64.max / 1_000, .max] {
            #expect(SessionDocument.iso8601(SessionTime(milliseconds: late)) == "9999-12-31T23:59:59Z")
        }
        for early in [-62_135_596_800_001, Int64.min / 1_000, .min] {
            let text = SessionDocument.iso8601(SessionTime(milliseconds: early))
            #expect(text.hasPrefix("0001-01-0") && text.hasSuffix("T00:00:00Z"), "\(text)")
        }
        let summary = SessionSummary(
            id: SessionID(1), createdAt: SessionTime(milliseconds: .min), lastUsedAt: SessionTime(milliseconds: .min),
            expiresAt: SessionTime(milliseconds: .max), client: SessionClientInfo())
        let document = String(decoding: SessionListDocument.make([summary], current: SessionID(2)), as: UTF8.self)
        #expect(document.contains(#""expiresAt":"9999-12-31T23:59:59Z""#))
    }
}
