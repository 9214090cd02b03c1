import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("The documents about sessions")
struct SessionDocumentTests {
    @Test("Times of a store that clients cannot parse are the first and the last that they can")
    func times() {
        let summary = SessionSummary(
            id: SessionID(1), createdAt: SessionTime(milliseconds: .min), lastUsedAt: SessionTime(milliseconds: .min),
            expiresAt: SessionTime(milliseconds: .max), client: SessionClientInfo())
        let document = String(decoding: SessionListDocument.make([summary], current: SessionID(2)), as: UTF8.self)
        expect(document.contains(#""createdAt":"0001-01-01T00:00:00Z""#))
        expect(document.contains(#""expiresAt":"9999-12-31T23:59:59Z""#))
    }
}
