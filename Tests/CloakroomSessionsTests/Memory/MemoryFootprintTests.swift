import CloakroomCore
import Foundation
import Testing

@testable import CloakroomSessions

/// How much memory sessions take. `CLOAKROOM_SESSIONS=1000000` in the environment measures a million, alone in its process;
/// `CLOAKROOM_REFRESH_BYTES` is the length of their refresh tokens.
@Suite("The memory that the memory store takes")
struct MemoryFootprintTests {
    private static func setting(_ name: String, default value: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? value
    }

    @Test("is a kilobyte a session at most, all told, with an access token of 400 bytes")
    func footprint() async throws {
        let count = Self.setting("CLOAKROOM_SESSIONS", default: 50_000)
        let access = 400
        // As long as the refresh tokens of the upstream that the gateway was made for.
        let ownRefresh = 43
        let refresh = Self.setting("CLOAKROOM_REFRESH_BYTES", default: ownRefresh)
        let limit = Double(1_024 + max(0, refresh - ownRefresh))
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
        #expect(bytes <= limit)
    }

    private static func token(_ count: Int) -> [UInt8] {
        [UInt8](repeating: UInt8(ascii: "a"), count: count)
    }

    private static func residentBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        let pages = try #require(text.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
