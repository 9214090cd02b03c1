import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Retry decision")
struct RetryDecisionTests {
    private static let configuration = RetryConfiguration(statuses: [503], attemptTimeout: .seconds(1))
    private let budget = RetryBudget(RetryConfiguration())

    private func decide(
        _ failure: RetryDecision.Failure, _ method: RequestMethod = .get,
        _ configuration: RetryConfiguration = configuration, random: UInt64 = 0,
        change: (inout RetryDecision.Situation) -> Void = { _ in }
    ) -> RetryDecision {
        var situation = RetryDecision.Situation(failure, method: method)
        change(&situation)
        return RetryDecision.decide(situation, configuration, budget: budget, random: random)
    }

    private static let failures: [(RetryDecision.Failure, RetryReason)] = [
        (.connect, .connect), (.refused, .refused), (.stale, .stale), (.reset, .reset),
        (.status(503, hasRetryAfter: false), .status), (.attemptTimeout, .attemptTimeout),
    ]

    @Test("Rule 64: which methods are sent again depends on whether the target can have processed them")
    func methods() {
        let expected: [RetryReason: Set<RequestMethod>] = [
            .connect: Set(RequestMethod.allCases), .refused: Set(RequestMethod.allCases),
            .stale: [.get, .head, .options, .put, .delete, .trace], .reset: [.get, .head, .options],
            .status: [.get, .head, .options], .attemptTimeout: [.get, .head, .options],
        ]
        for (failure, reason) in Self.failures {
            for method in RequestMethod.allCases {
                budget.tick(elapsed: 60_000_000_000)
                let decision = decide(failure, method)
                if expected[reason]?.contains(method) == true {
                    expect(decision, equals: reason == .stale ? .retryFresh(.stale) : .retryOther(reason))
                } else {
                    expect(decision, equals: .pass(.method, reason: reason))
                }
            }
        }
    }

    @Test("Failures that are not configured are passed on")
    func notConfigured() {
        for failure in [.status(503, hasRetryAfter: false), .attemptTimeout] as [RetryDecision.Failure] {
            expect(decide(failure, .get, RetryConfiguration()), equals: .pass(.notConfigured, reason: nil))
        }
        for status in [500, 502, 504, 429, 200] {
            expect(decide(.status(status, hasRetryAfter: false)), equals: .pass(.notConfigured, reason: nil))
        }
        for (failure, reason) in Self.failures {
            let one = RetryConfiguration(attempts: 1, statuses: [503], attemptTimeout: .seconds(1))
            expect(decide(failure, .get, one), equals: .pass(.notConfigured, reason: reason))
            expect(decide(failure) { $0.isPermitted = false }, equals: .pass(.notConfigured, reason: reason))
        }
    }

    @Test("Rule 64: what reached the client, tunnels and bodies that are not buffered are never sent again")
    func never() {
        let cases: [(RetryObstacle, (inout RetryDecision.Situation) -> Void)] = [
            (.responseStarted, { $0.isResponseStarted = true }), (.tunnel, { $0.isTunnel = true }),
            (.bodyNotBuffered, { $0.isBodyBuffered = false }), (.attempts, { $0.attempts = 2 }),
            (.attempts, { $0.sends = 4 }), (.deadline, { $0.remaining = 99_999_999 }),
            (.noTarget, { $0.targets = .none }),
        ]
        for (failure, reason) in Self.failures {
            for (obstacle, change) in cases {
                expect(decide(failure, change: change), equals: .pass(obstacle, reason: reason))
            }
        }
        expect(budget.available, equals: 10)
    }

    @Test("A status with Retry-After is passed on")
    func retryAfter() {
        expect(decide(.status(503, hasRetryAfter: true)), equals: .pass(.retryAfter, reason: .status))
    }

    @Test("Rule 64: a gRPC call is sent again only if no target processed it, although its method is configured")
    func calls() {
        let post = RetryConfiguration(statuses: [503], methods: [.post], attemptTimeout: .seconds(1))
        for (failure, reason) in Self.failures {
            let isSafe = reason == .connect || reason == .refused
            let decision = decide(failure, .post, post) { $0.isCall = true }
            expect(decision, equals: isSafe ? .retryOther(reason) : .pass(.method, reason: reason))
            expect(decide(failure, .post, post).isRetry, equals: reason != .stale)
        }
    }

    @Test("Retries are charged, except after failed connections and on closed connections")
    func charged() {
        for (failure, reason) in Self.failures {
            let budget = RetryBudget(RetryConfiguration())
            let situation = RetryDecision.Situation(failure, method: .get)
            _ = RetryDecision.decide(situation, Self.configuration, budget: budget, random: 0)
            expect(budget.available, equals: (reason == .connect || reason == .stale ? 10 : 9))
        }
        while budget.take() {}
        for (failure, reason) in Self.failures where reason != .connect && reason != .stale {
            expect(decide(failure), equals: .pass(.noBudget, reason: reason))
        }
        expect(decide(.connect), equals: .retryOther(.connect))
        expect(decide(.stale), equals: .retryFresh(.stale))
    }

    @Test("A target that was tried is tried again after 25 to 250 ms, with 100 ms left")
    func delay() {
        func delay(_ random: UInt64, remaining: UInt64 = .max) -> UInt64? {
            let decision = decide(.reset, random: random) {
                $0.targets = .tried
                $0.remaining = remaining
            }
            guard case .retryAny(.reset, let delay) = decision else { return nil }
            return delay
        }
        expect(delay(0), equals: 25_000_000)
        expect(delay(1 << 63), equals: 137_500_000)
        #expect((delay(.max) ?? 0) > 249_999_000)
        expect(delay(.max, remaining: 150_000_000), equals: 50_000_000)
        expect(delay(.max, remaining: 100_000_000), equals: 0)
    }

    @Test("A target that only ended a connection gets the request again at once, the first time without a charge")
    func targetIsWell() {
        let before = budget.available
        for attempts in 1...5 {
            let decision = decide(.refused, .post) {
                $0.isTargetWell = true
                $0.attempts = attempts
                $0.sends = attempts
            }
            let expected = RetryDecision.retryFresh(.refused)
            expect(decision, equals: (attempts < 4 ? expected : .pass(.attempts, reason: .refused)))
        }
        expect(budget.available, equals: before - 2)
    }

    @Test("The third attempt is permitted by configuration")
    func moreAttempts() {
        let more = RetryConfiguration(attempts: 4)
        expect(
            decide(.reset, .get, more) {
                $0.attempts = 3; $0.sends = 3
            }, equals: .retryOther(.reset))
        expect(decide(.reset, .get, more) { $0.attempts = 4 }, equals: .pass(.attempts, reason: .reset))
    }
}
