import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("A shard of the memory store")
struct MemorySessionShardTests {
    private let now = Sample.start
    private let timeouts = SessionTimeouts(idle: .seconds(900), absolute: .seconds(3_600))

    private func session(_ key: SessionKey) -> Session {
        Session(
            key: key, user: Sample.user(), tokens: Sample.tokens(), createdAt: now, expiresAt: now + .seconds(3_600),
            lastUsedAt: now)
    }

    @Test("returns a session for its complete key only, not for a key with the same prefix")
    func wholeKey() {
        var contents = State(tombstones: 4)
        let key = SessionKey(1, 2, 3, 4)
        let inserted = contents.insert(session(key), deadline: now + .seconds(900))
        expect(inserted)
        for other in [SessionKey(1, 2, 3, 5), SessionKey(1, 2, 9, 4), SessionKey(1, 9, 3, 4)] {
            expect(contents.find(other)?.key, equals: nil, "a session of another key")
            guard case .notFound = contents.lease(other, for: .seconds(15), timeouts: timeouts, now: now) else {
                Issue.record("a lease on a session of another key")
                continue
            }
            let hasRoom = contents.insert(session(other), deadline: now + .seconds(900))
            expect(!hasRoom)
        }
        expect(contents.find(key)?.key, equals: key)
    }
}
