import CloakroomCore
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import CloakroomIdentity

/// Rule 14 of the design of identities, with fetches.
@Suite("Current keys of a provider")
struct ProviderKeysTests {
    /// A provider with a clock that only the test advances.
    private final class ScriptedProvider: Sendable {
        private struct State {
            var document: [UInt8]?
            var fetches = 0
            var now: UInt64 = 0
            var outcomes: [ProviderKeys.FetchOutcome] = []
            var isHeld = false
            var clock = Clock.runs
        }

        /// Whether the next reading of the clock blocks its thread, for 20 s at most.
        enum Clock { case runs, blocksNext, blocks }

        private let state: Mutex<State>

        init(_ keys: [String]?) { state = Mutex(State(document: keys.map(keySetDocument))) }

        var fetches: Int { state.withLock { $0.fetches } }
        var outcomes: [ProviderKeys.FetchOutcome] { state.withLock { $0.outcomes } }

        /// Replaces the keys; `nil` for a provider that is unavailable.
        func serve(_ keys: [String]?) { state.withLock { $0.document = keys.map(keySetDocument) } }
        func serve(document: [UInt8]) { state.withLock { $0.document = document } }
        func advance(seconds: UInt64) { state.withLock { $0.now += seconds * 1_000_000_000 } }
        /// Holds responses back until released.
        func hold(_ isHeld: Bool) { state.withLock { $0.isHeld = isHeld } }

        var isClockBlocked: Bool { state.withLock { $0.clock == .blocks } }
        func blockClock(_ isBlocked: Bool) { state.withLock { $0.clock = isBlocked ? .blocksNext : .runs } }

        private func readClock() -> UInt64 {
            let isBlocked = state.withLock { state in
                defer { if state.clock == .blocksNext { state.clock = .blocks } }
                return state.clock == .blocksNext
            }
            let end = ContinuousClock.now + .seconds(20)
            while isBlocked, isClockBlocked, ContinuousClock.now < end { usleep(1_000) }
            if isBlocked { blockClock(false) }
            return state.withLock { $0.now }
        }

        private struct Unavailable: Error {}

        func keys(previous: ProviderKeys? = nil) -> ProviderKeys {
            ProviderKeys(
                algorithms: Set(SignatureAlgorithm.defaults), previous: previous?.fetched,
                now: { self.readClock() }, random: { 0 },
                report: { outcome in self.state.withLock { $0.outcomes.append(outcome) } },
                fetch: {
                    // The keys are those of the time at which the fetch begins.
                    let document = self.state.withLock { state in
                        state.fetches += 1
                        return state.document
                    }
                    while self.state.withLock({ $0.isHeld }) { try await Task.sleep(for: .milliseconds(1)) }
                    guard let document else { throw Unavailable() }
                    return ProviderKeys.Response(document: document, lifetime: .seconds(3_600))
                })
        }
    }

    private let key: ScriptedKey
    private let provider: ScriptedProvider
    private let keys: ProviderKeys

    init() throws {
        key = try ScriptedKey(.es256)
        provider = ScriptedProvider([try key.jwk()])
        keys = provider.keys()
    }

    private func failure(
        _ token: [UInt8], from source: KeySetSchedule.Source = .tokenEndpoint, of other: ProviderKeys? = nil,
        client: RateKey = RateKey(peer: "")
    ) async -> TokenClientError.Kind? {
        await thrown { () throws(TokenClientError) in
            try await (other ?? keys).verify(token, from: source, of: client) { $0 }
        }?.kind
    }

    @Test("The first token fetches the keys, and later ones use them")
    func firstToken() async throws {
        provider.serve([try key.jwk(), #"{"kty":"oct"}"#])
        for _ in 0..<3 { await expect(failure(try key.token("{}")), equals: nil) }
        expect(provider.fetches, equals: 1)
        expect(provider.outcomes, equals: [.replaced(usable: 1, skipped: 1)])
    }

    @Test("Identity rule 14: a rotation needs no restart, and the removed key verifies nothing")
    func rotationNeedsNoRestart() async throws {
        let new = try ScriptedKey(.es256, id: "new")
        await expect(failure(try key.token("{}")), equals: nil)
        provider.serve([try new.jwk()])
        provider.advance(seconds: 31)
        await expect(failure(try new.token("{}")), equals: nil)
        await expect(failure(try key.token("{}")), equals: .failed(.token(.unknownKey)))
        expect(provider.fetches, equals: 2)
    }

    @Test("A token that no key can verify causes no fetch", arguments: ["", "a.b", "eyJhbGciOiJub25lIn0.e30."])
    func unparsableTokens(text: String) async throws {
        await expect(failure(Array(text.utf8), from: .backChannel) != nil)
        expect(provider.fetches, equals: 0)
    }

    @Test("Many tokens at once cause one fetch")
    func oneFetch() async throws {
        let token = try key.token("{}")
        provider.hold(true)
        await withTaskGroup(of: TokenClientError.Kind?.self) { group in
            for _ in 0..<50 { group.addTask { await failure(token) } }
            while provider.fetches == 0 { await Task.yield() }
            provider.hold(false)
            for await result in group { expect(result, equals: nil) }
        }
        expect(provider.fetches, equals: 1)
    }

    @Test("A sign-in whose key was published during a fetch causes a second one")
    func keyPublishedDuringFetch() async throws {
        let new = try ScriptedKey(.es256, id: "new")
        provider.hold(true)
        async let logout = failure(try key.token("{}"), from: .backChannel)
        while provider.fetches == 0 { await Task.yield() }
        provider.serve([try key.jwk(), try new.jwk()])
        async let signIn = failure(try new.token("{}"))
        provider.hold(false)
        try await expect(logout, equals: nil)
        try await expect(signIn, equals: nil)
        expect(provider.fetches, equals: 2)
    }

    @Test("Identity rule 14: without keys the provider is unavailable, and the token is not judged")
    func unavailable() async throws {
        provider.serve(nil)
        await expect(failure(try key.token("{}")), equals: .unreachable)
        provider.serve([try key.jwk()])
        await expect(failure(try key.token("{}")), equals: .unreachable)
        provider.advance(seconds: 30)
        await expect(failure(try key.token("{}")), equals: nil)
        expect(provider.outcomes, equals: [.failed, .replaced(usable: 1, skipped: 0)])
    }

    @Test("An invalid document replaces no key")
    func invalidDocument() async throws {
        await expect(failure(try key.token("{}")), equals: nil)
        provider.serve(document: Array("<html>".utf8))
        provider.advance(seconds: 31)
        let other = ScriptedKey(key, algorithm: .es256, id: "other")
        await expect(failure(try other.token("{}")), equals: .failed(.token(.unknownKey)))
        expect(provider.outcomes.last, equals: .invalid(.notJSON))
        await expect(failure(try key.token("{}")), equals: nil)
    }

    @Test("Keys are fetched in the background until the task is cancelled")
    func background() async throws {
        let task = Task { await keys.run() }
        while provider.outcomes.isEmpty { await Task.yield() }
        await expect(keys.usability, equals: .fresh)
        task.cancel()
        await task.value
        expect(provider.fetches, equals: 1)
    }

    @Test("Keys with any numbers end no process", arguments: ["RSA", "EC", "OKP"])
    func randomNumbers(type: String) async throws {
        for seed in 0..<60 {
            func number(_ count: Int) -> String {
                Base64URL.encode((0..<count).map { UInt8(truncatingIfNeeded: ($0 + seed) &* (2 * seed + 1) | 1) })
            }
            let curve = type == "OKP" ? "Ed25519" : ["P-256", "P-384", "P-521"][seed % 3]
            let length = [32, 48, 66][seed % 3]
            let key =
                #"{"kty":"\#(type)","crv":"\#(curve)","x":"\#(number(type == "OKP" ? 32 : length))","#
                + #""y":"\#(number(length))","n":"\#(number(256 + seed))","e":"\#(number(1 + seed % 4))","kid":"a"}"#
            let keys = try SignatureKeySet(
                document: keySetDocument([key]), algorithms: Set(SignatureAlgorithm.allCases))
            for algorithm in SignatureAlgorithm.allCases {
                for count in [1, 64, 96, 132, 256, 256 + seed] {
                    let header = Base64URL.encode(Array(#"{"alg":"\#(algorithm.rawValue)","kid":"a"}"#.utf8))
                    expect(rejection(try keys.verify(Array("\(header).e30.\(number(count))".utf8))) != nil)
                }
            }
        }
    }

    @Test("Keys of an earlier configuration verify tokens while the provider is unavailable, until they are too old")
    func previous() async throws {
        expect(keys.fetched == nil)
        await expect(keys.prepare())
        provider.serve(nil)
        // Also over several configurations.
        let later = provider.keys(previous: provider.keys(previous: keys))
        await expect(later.usability, equals: .fresh)
        await expect(failure(try key.token("{}"), of: later), equals: nil)
        expect(provider.fetches, equals: 1)
        // A day after their lifetime.
        provider.advance(seconds: 3_600 + 86_399)
        await expect(failure(try key.token("{}"), of: later), equals: nil)
        provider.advance(seconds: 1)
        await expect(failure(try key.token("{}"), of: later), equals: .unreachable)
    }

    @Test("Identity rule 44: one client has a share of the calls that wait for a fetch of keys, and further ones fail")
    func limitedWaits() async throws {
        let (token, share) = (try key.token("{}"), ClientShares.alone())
        let (one, other) = (RateKey(peer: "192.0.2.1"), RateKey(peer: "192.0.2.2"))
        provider.hold(true)
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<2 * share { group.addTask { await keys.prepare(for: one) } }
            for _ in 0..<share { await expect(group.next(), equals: false) }
            await expect(failure(token, from: .client, client: one), equals: .unreachable)
            // Another client waits, the provider, and a refresh of a user.
            group.addTask { await keys.prepare(for: other) }
            group.addTask { await failure(token, from: .client, client: other) == nil }
            group.addTask { await failure(token, from: .backChannel) == nil }
            while keys.queues.waits.count < share + 3 { await Task.yield() }
            group.addTask { await keys.prepare() }
            provider.hold(false)
            for await isReady in group { expect(isReady) }
        }
        expect(provider.fetches, equals: 1)
        expect(keys.queues.waits.count, equals: 0)
    }

    @Test(
        "Identity rules 20 and 44: tokens of a client have a share of the places to wait for a check, and no sign-in waits",
        .enabled(if: ProcessInfo.processInfo.activeProcessorCount > 1),
        arguments: [KeySetSchedule.Source.backChannel, .client])
    func tokensOfClient(source: KeySetSchedule.Source) async throws {
        let (token, waiting) = (try key.token("{}"), try require(keys.queues.checks[source]).waiting)
        let (one, other) = (RateKey(peer: "192.0.2.1"), RateKey(peer: "192.0.2.2"))
        await expect(failure(token), equals: nil)
        provider.blockClock(true)
        try await withThrowingTaskGroup(of: TokenClientError.Kind?.self) { group in
            group.addTask { await failure(token, from: source, client: one) }
            while !provider.isClockBlocked { await Task.yield() }
            await expect(failure(token), equals: nil)
            for _ in 0..<20 { group.addTask { await failure(token, from: source, client: one) } }
            try await eventually("they wait") { waiting.count == 20 }
            let rest = waiting.takeAll("192.0.2.1")
            expect(rest, equals: ClientShares.alone() - 20)
            await expect(failure(token, from: source, client: one), equals: .unreachable)
            // The other one waits for the check in progress, and is not rejected.
            group.addTask { await failure(token, from: source, client: other) }
            try await eventually("it waits") { waiting[other] == 1 }
            expect(provider.isClockBlocked)
            provider.blockClock(false)
            for try await result in group { expect(result, equals: nil) }
            expect(waiting.count, equals: rest)
        }
    }

    @Test("Identity rule 44: of tokens that are sent at once, none is checked when the permitted number is rejected")
    func chargedInTurn() async throws {
        await expect(failure(try key.token("{}")), equals: nil)
        let (token, rejected) = (try ScriptedKey(.es256).token("{}"), RejectedTokens())
        let kinds = await withTaskGroup(of: TokenClientError.Kind?.self) { group in
            for _ in 0..<100 {
                group.addTask {
                    await thrown { () throws(TokenClientError) in
                        try await keys.verify(token, from: .client, charge: { rejected.charge($0) }) { $0 }
                    }?.kind
                }
            }
            return await group.reduce(into: [TokenClientError.Kind?]()) { $0.append($1) }
        }
        expect(kinds.count { $0 == .failed(.token(.invalidSignature)) }, equals: RejectedTokens.limit)
        expect(kinds.count { $0 == .busy }, equals: kinds.count - RejectedTokens.limit)
    }

    /// Permits a number of rejected tokens.
    private final class RejectedTokens: Sendable {
        static let limit = 20
        private let count = Mutex(0)

        func charge(_ isRejected: Bool) -> Bool {
            count.withLock { count in
                guard count < Self.limit else { return false }
                count += isRejected ? 1 : 0
                return true
            }
        }
    }

    @Test("Identity rule 44: a token that is not checked, because too many were rejected, causes no fetch of keys")
    func repeatedCheck() async throws {
        await expect(failure(try key.token("{}")), equals: nil)
        let token = try ScriptedKey(.es256, id: nil).token("{}")
        await #expect(throws: TokenClientError(.busy, in: .keys)) {
            try await keys.verify(token, from: .client, charge: { _ in false }) { $0 }
        }
        expect(provider.fetches, equals: 1)
        await expect(failure(token, from: .client), equals: .failed(.token(.invalidSignatureWithoutKeyID)))
    }

    @Test("A wait ends at its deadline, and the fetch continues")
    func deadline() async throws {
        let token = try key.token("{}")
        provider.hold(true)
        let start = ContinuousClock.now
        await expect(!keys.prepare(until: start + .milliseconds(50)))
        await #expect(throws: TokenClientError(.unreachable, in: .keys)) {
            try await keys.verify(token, from: .tokenEndpoint, until: start + .milliseconds(100)) { $0 }
        }
        #expect(ContinuousClock.now - start < .seconds(30))
        provider.hold(false)
        await expect(failure(token), equals: nil)
        expect(provider.fetches, equals: 1)
    }
}
