import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// Tabs of one browser, replicas with clocks of their own, responses that are lost, and a thief with the ticket.
///
/// A browser refreshes its proof before the request of any tab once it has expired, as the draft requires, and repeats
/// that with the challenge of a 403.
@Suite("Simulation of device-bound sessions", .timeLimit(.minutes(3)))
struct DeviceSimulationTests {
    fileprivate static let now = AccountControllerFixture.now.wallTime

    fileprivate struct World {
        var random: SplitMix
        let replicas: [AccountControllerFixture]
        /// How far the clock of each replica is ahead, in seconds.
        let clocks: [Int64]
        var time: Int64 = 0
        var browser: DeviceClient
        var thief: DeviceClient
        /// The counts of what occurred.
        var counts = [0, 0, 0, 0, 0, 0]

        func now(at replica: Int) -> WallTime { DeviceSimulationTests.now + .seconds(time + clocks[replica]) }
        /// The time of the browser, which counts the lifetime of its cookies.
        var local: WallTime { DeviceSimulationTests.now + .seconds(time) }
    }

    fileprivate struct SplitMix: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var bits = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
            bits = (bits ^ (bits >> 27)) &* 0x94d0_49bb_1331_11eb
            return bits ^ (bits >> 31)
        }
    }

    fileprivate enum Event: Int, CaseIterable { case used, refreshed, challenged, lost, doubled, stolen }

    @Test("Rule 117: proven clients stay so, on every replica, and a client without the key gets no proof")
    func seeds() async throws {
        let results = await SeedResults.run(500) { seed in
            do {
                let world = try await Self.run(seed)
                return (nil, world.counts.reduce(0, +), world.counts)
            } catch {
                return ("\(error)", 0, Event.allCases.map { _ in 0 })
            }
        }
        expect(results.violations, equals: [])
        expect(zip(Event.allCases, results.counts).filter { $0.1 == 0 }.map(\.0), equals: [])
    }

    fileprivate struct Violated: Error, CustomStringConvertible { let description: String }

    private static func run(_ seed: UInt64) async throws -> World {
        var device = DeviceConfiguration()
        device.mode = seed % 2 == 0 ? .auto : .required
        let first = AccountControllerFixture(device: device)
        let replicas = [first] + (0..<2).map { _ in AccountControllerFixture(device: device, store: first.store) }
        var random = SplitMix(state: seed)
        let clocks = replicas.map { _ in Int64.random(in: -10...10, using: &random) }
        var world = World(
            random: random, replicas: replicas, clocks: clocks, browser: try DeviceClient(), thief: try DeviceClient())
        world.browser.take(await replicas[0].signIn(at: world.now(at: 0).sessionTime), at: world.local)
        world.thief.ticket = world.browser.ticket
        world.thief.peer = "192.0.2.66"
        try await world.register()
        // The session ends after 8 h.
        for _ in 0..<40 where world.time < 27_000 {
            world.time += Int64.random(in: 0...(Bool.random(using: &world.random) ? 40 : 900), using: &world.random)
            switch Int.random(in: 0..<4, using: &world.random) {
            case 0: try await world.steal()
            default: try await world.use()
            }
        }
        return world
    }
}

extension DeviceSimulationTests.World {
    fileprivate mutating func note(_ event: DeviceSimulationTests.Event) { counts[event.rawValue] += 1 }

    /// Sends a request to a replica.
    /// - Returns: `nil` if the response was lost; the gateway has processed it.
    private mutating func send(_ request: (WallTime) -> AccountRequest) async -> AccountResponse? {
        let replica = Int.random(in: replicas.indices, using: &random)
        let response = await replicas[replica].endpoints.respond(request(now(at: replica)))
        guard Int.random(in: 0..<8, using: &random) > 0 else {
            note(.lost)
            return nil
        }
        return response
    }

    /// Registers the key; a lost response is repeated.
    fileprivate mutating func register() async throws {
        let token = try browser.signed(try require(browser.challenge))
        for _ in 0..<20 where browser.sessionID == nil {
            let client = browser
            guard let response = await send({ client.refresh(token, at: $0) }) else { continue }
            guard response.status == 200 else { throw violated("registration: \(response.status)") }
            browser.take(response, at: local)
        }
        thief.sessionID = browser.sessionID
    }

    /// A tab sends a request, after a refresh if the proof has expired.
    fileprivate mutating func use() async throws {
        if browser.proof.map({ local >= $0.end }) ?? true { try await refresh() }
        guard let proof = browser.proof, local < proof.end else { return }
        let client = browser
        let response = await send { now in
            var request = client.request(.currentSession, at: now)
            // The browser decides about its cookies, by its own clock.
            request.device.cookie = Array(proof.value.utf8)
            return request
        }
        if let response, response.status != 200 { throw violated("a proven client got \(response.status)") }
        note(.used)
    }

    private mutating func refresh() async throws {
        for _ in 0..<20 {
            let client = browser
            let token = try client.challenge.map { try client.signed($0) }
            // Browsers send one signed proof twice.
            for _ in 0...(Bool.random(using: &random) ? 1 : 0) {
                guard let response = await send({ client.refresh(token, at: $0) }) else { continue }
                switch response.status {
                case 204: note(browser.proof.map { local < $0.end } == true ? .doubled : .refreshed)
                case 403: note(.challenged)
                default: throw violated("refresh: \(response.status)")
                }
                browser.take(response, at: local)
            }
            if let proof = browser.proof, local < proof.end { return }
        }
    }

    /// The thief has the ticket and what was sent, but not the key.
    fileprivate mutating func steal() async throws {
        var attempt = thief
        if Bool.random(using: &random) { attempt.sessionID = nil }
        let token = try attempt.signed(thief.challenge ?? browser.challenge ?? "")
        let client = attempt
        guard let response = await send({ client.refresh(token, at: $0) }) else { return }
        guard [403, 503].contains(response.status), response.values(of: "Set-Cookie").isEmpty else {
            throw violated("a client without the key got \(response.status)")
        }
        thief.take(response, at: local)
        note(.stolen)
    }

    private func violated(_ text: String) -> DeviceSimulationTests.Violated {
        .init(description: "\(text) at \(time) s")
    }
}
