import CloakroomCore
import Foundation
import Testing

@testable import CloakroomSessions

/// How much memory sessions take. `CLOAKROOM_SESSIONS=1000000` in the environment measures a million, alone in its process;
/// `CLOAKROOM_REFRESH_BYTES` is the length of their refresh tokens.
@Suite("The memory that the memory store takes", .timeLimit(.minutes(3)))
struct MemoryFootprintTests {
    private static func setting(_ name: String, default value: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? value
    }

    /// A store with sessions in it, and the tickets of some.
    private struct Filled {
        let store: MemorySessionStore
        var sampled: [SessionTicket] = []

        /// - Parameter samples: How many tickets to keep, spread over all.
        init(_ count: Int, access: Int, refresh: Int, samples: Int) async throws {
            var configuration = Sample.configuration
            configuration.maxSessions = count
            store = MemorySessionStore(configuration, accountHashes: Sample.accountHashes, clock: { Sample.start })
            let step = max(1, count / samples)
            for number in 0..<count {
                let new = NewSession(
                    user: UserProfile(
                        json: Array(#"{"id":\#(number),"email":"user-\#(number)@example.com","name":"Some One"}"#.utf8),
                        account: Sample.account(number)),
                    tokens: TokenSet(
                        authorization: Secret(bytes: Array("Bearer ".utf8) + token(access)),
                        refreshToken: Secret(bytes: token(refresh)),
                        accessTokenExpiresAt: Sample.start + .seconds(600), obtainedAt: Sample.start),
                    client: Sample.client)
                let (ticket, _) = try await store.create(new, now: Sample.start)
                if number % step == 0, sampled.count < samples { sampled.append(ticket) }
            }
        }

        /// What a look-up takes, in the best of some rounds: the others were held up by somebody else.
        func timeOfLook() -> Duration {
            let clock = ContinuousClock()
            let rounds = (0..<20).map { _ in
                clock.measure {
                    for ticket in sampled where store.lookup(ticket, now: Sample.start, slides: true).session == nil {
                        Issue.record("it is gone")
                    }
                }
            }
            return (rounds.min() ?? .zero) / sampled.count
        }
    }

    @Test("is a kilobyte a session at most, all told, with an access token of 400 bytes, and looks stay as quick")
    func footprint() async throws {
        let count = Self.setting("CLOAKROOM_SESSIONS", default: 50_000)
        let access = 400
        // As long as the refresh tokens of the upstream that the gateway was made for.
        let ownRefresh = 43
        let refresh = Self.setting("CLOAKROOM_REFRESH_BYTES", default: ownRefresh)
        let limit = Double(1_024 + max(0, refresh - ownRefresh))
        let before = try Self.residentBytes()
        let many = try await Filled(count, access: access, refresh: refresh, samples: 500)
        let bytes = Double(try Self.residentBytes() - before) / Double(count)
        #expect(many.store.count == count)
        #expect(bytes <= limit)
        let few = try await Filled(max(1, count / 50), access: access, refresh: refresh, samples: 500)
        let (look, lookAmongFew) = (many.timeOfLook(), few.timeOfLook())
        print("\(count) sessions, tokens of \(access) and \(refresh) bytes: \(Int(bytes)) bytes, \(look) a look")
        #expect(look <= lookAmongFew * 3, "\(look) a look among \(count), \(lookAmongFew) among a fiftieth of them")
    }

    private static func residentBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        let pages = try #require(text.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}

private func token(_ count: Int) -> [UInt8] {
    [UInt8](repeating: UInt8(ascii: "a"), count: count)
}
