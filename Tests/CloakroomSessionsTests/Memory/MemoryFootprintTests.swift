import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomSessions

/// Measures the memory of sessions. `CLOAKROOM_SESSIONS=1000000` in the environment measures a million in a process of
/// its own; `CLOAKROOM_REFRESH_BYTES` is the length of their refresh tokens.
@Suite("Memory use of the memory store", .timeLimit(.minutes(3)))
struct MemoryFootprintTests {
    private static func setting(_ name: String, default value: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? value
    }

    /// Creates a store with sessions, and returns the tickets of some of them.
    private struct Filled {
        let store: MemorySessionStore
        var sampled: [SessionTicket] = []

        /// - Parameter samples: The number of tickets to return, spread over all sessions.
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
                        accessTokenExpiresAt: Sample.start.wallTime + .seconds(600),
                        obtainedAt: Sample.start.wallTime),
                    client: Sample.client)
                let (ticket, _) = try await store.create(new, now: Sample.start)
                if number % step == 0, sampled.count < samples { sampled.append(ticket) }
            }
        }

        /// The duration of a lookup in the fastest of several rounds: other processes delay the slower ones.
        func timeOfLook() -> Duration {
            let clock = ContinuousClock()
            let rounds = (0..<20).map { _ in
                clock.measure {
                    for ticket in sampled where store.lookup(ticket, now: Sample.start, slides: true).session == nil {
                        Issue.record("the session is missing")
                    }
                }
            }
            return (rounds.min() ?? .zero) / sampled.count
        }
    }

    /// The result of a measurement.
    private struct Figures: Codable {
        let bytesPerSession: Double
        /// Nanoseconds per lookup among all sessions, and among a fiftieth of them.
        let lookup: UInt64
        let lookupAmongFew: UInt64
    }

    private static let count = setting("CLOAKROOM_SESSIONS", default: 50_000)
    private static let access = 400
    /// The length of the refresh tokens that the gateway's original upstream issues.
    private static let ownRefresh = 43
    private static let refresh = setting("CLOAKROOM_REFRESH_BYTES", default: ownRefresh)

    @Test("is at most 1 KiB per session in total, with an access token of 400 bytes, and lookups stay as fast")
    func footprint() async throws {
        // Resident memory is that of a process, and other tests run in this one at the same time.
        let other = try await #require(processExitsWith: .success, observing: [\.standardOutputContent]) {
            let figures = try await Self.measure()
            print("figures " + String(decoding: try JSONEncoder().encode(figures), as: UTF8.self))
        }
        let output = String(decoding: other.standardOutputContent, as: UTF8.self)
        let line = try require(output.split(separator: "\n").first { $0.hasPrefix("figures ") })
        let figures = try JSONDecoder().decode(Figures.self, from: Data(line.dropFirst("figures ".count).utf8))
        print(
            "\(Self.count) sessions, tokens of \(Self.access) and \(Self.refresh) bytes:",
            "\(Int(figures.bytesPerSession)) bytes, \(figures.lookup) ns per lookup")
        #expect(figures.bytesPerSession <= Double(1_024 + max(0, Self.refresh - Self.ownRefresh)))
        #expect(figures.lookup <= figures.lookupAmongFew * 3)
    }

    private static func measure() async throws -> Figures {
        // First, so that what the process itself needs is not counted as memory of sessions.
        let few = try await Filled(max(1, count / 50), access: access, refresh: refresh, samples: 500)
        let before = try residentBytes()
        let many = try await Filled(count, access: access, refresh: refresh, samples: 500)
        let bytes = Double(try residentBytes() - before) / Double(count)
        expect(many.store.count, equals: count)
        return Figures(
            bytesPerSession: bytes, lookup: many.timeOfLook().wholeNanoseconds,
            lookupAmongFew: few.timeOfLook().wholeNanoseconds)
    }

    private static func residentBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        let pages = try require(text.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}

private func token(_ count: Int) -> [UInt8] {
    [UInt8](repeating: UInt8(ascii: "a"), count: count)
}
