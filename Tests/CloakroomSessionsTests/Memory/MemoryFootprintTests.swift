import CloakroomCore
import Foundation
import Testing

@testable import CloakroomSessions

/// How much memory sessions take. `CLOAKROOM_SESSIONS=1000000` in the environment measures a million.
@Suite("The memory that the memory store takes", .serialized)
struct MemoryFootprintTests {
    private static var sessionCount: Int {
        ProcessInfo.processInfo.environment["CLOAKROOM_SESSIONS"].flatMap { Int($0) } ?? 50_000
    }

    /// Sizes as the upstream gives them: what stands behind `Bearer `, and the refresh token.
    private static let tokenSizes: [(access: Int, refresh: Int, limit: Double)] = [
        (400, 43, 1_024), (400, 400, 1_424),
    ]

    @Test("is a kilobyte a session at most, all told, with an access token of 400 bytes", arguments: tokenSizes)
    func footprint(access: Int, refresh: Int, limit: Double) async throws {
        let count = Self.sessionCount
        var plan = Sample.plan
        plan.maxSessions = count
        let before = try Self.residentBytes()
        let store = MemorySessionStore(plan, accountHashes: Sample.accountHashes, clock: { Sample.start })
        var sampled: [SessionTicket] = []
        for number in 0..<count {
            let new = NewSession(
                user: UserProfile(
                    json: Array(#"{"id":\#(number),"email":"user-\#(number)@example.com","name":"Some One"}"#.utf8),
                    account: Sample.account(number)),
                tokens: SessionTokens(
                    authorization: Secret(bytes: Array("Bearer ".utf8) + Self.token(access)),
                    refreshToken: Secret(bytes: Self.token(refresh)),
                    accessExpiresAt: Sample.start + .seconds(600), obtainedAt: Sample.start),
                client: Sample.client)
            let (ticket, _) = try await store.create(new, now: Sample.start)
            if number % 100 == 0 { sampled.append(ticket) }
        }
        let bytes = Double(try Self.residentBytes() - before) / Double(count)
        let clock = ContinuousClock()
        let elapsed = clock.measure {
            for ticket in sampled {
                if store.find(ticket, now: Sample.start, slides: true).session == nil { Issue.record("it is gone") }
            }
        }
        #expect(store.count == count)
        let perLookup = elapsed / sampled.count
        print("\(count) sessions, tokens of \(access) and \(refresh) bytes: \(Int(bytes)) bytes, \(perLookup) a look")
        // What earlier tests gave back is used again without the process growing, so small counts show too little.
        #expect(bytes <= limit)
    }

    private static func token(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(ascii: "a") + UInt8.random(in: 0..<26) }
    }

    private static func residentBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        let pages = try #require(text.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
