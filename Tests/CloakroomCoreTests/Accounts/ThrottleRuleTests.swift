import CloakroomCore
import TestSupport
import Testing

@Suite("The rules of the sign-in throttle")
struct ThrottleRuleTests {
    @Test("An account from one address may fail five times in two minutes; then waits double from 1 s to 5 min")
    func accountAndAddress() {
        var script = ThrottleScenario(.accountAndAddress)
        expect(script.fail(times: 5).allSatisfy { $0 == .zero })
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300] {
            expect(script.wait, equals: .seconds(seconds))
            script.pass(.seconds(seconds) - .milliseconds(1))
            expect(script.fail(), equals: .milliseconds(1))
            script.pass(.milliseconds(1))
            expect(script.fail(), equals: .zero)
        }
    }

    @Test("Four failures in every two minutes cause no wait")
    func slowFailures() {
        var script = ThrottleScenario(.accountAndAddress)
        for _ in 0..<50 {
            expect(script.fail(times: 4).allSatisfy { $0 == .zero })
            script.pass(.seconds(120))
        }
        expect(script.fail(times: 5).allSatisfy { $0 == .zero })
        expect(script.fail(), equals: .seconds(1))
    }

    @Test("A rejected attempt does not extend the wait")
    func rejectedAttempts() {
        var script = ThrottleScenario(.accountAndAddress)
        _ = script.fail(times: 5)
        expect(script.fail(times: 1_000).allSatisfy { $0 == .seconds(1) })
        script.pass(.seconds(1))
        expect(script.wait, equals: .zero)
    }

    @Test("Waiting for the count to expire is no advantage over continuing at the maximum wait")
    func patience() {
        var goesOn = ThrottleScenario(.accountAndAddress)
        var sitsOut = goesOn
        let end = goesOn.now + .seconds(24 * 3_600)
        var (steady, patient) = (0, 0)
        while goesOn.now < end {
            steady += goesOn.fail() == .zero ? 1 : 0
            goesOn.pass(goesOn.wait)
        }
        while sitsOut.now < end {
            patient += sitsOut.fail() == .zero ? 1 : 0
            sitsOut.pass(sitsOut.wait < .seconds(300) ? sitsOut.wait : .seconds(3_900))
        }
        #expect(steady < 24 * 12 + 13)
        #expect(patient <= steady + 13)
    }

    @Test("An address may fail thirty times in ten minutes, and is then blocked until they are over")
    func address() {
        var script = ThrottleScenario(.address)
        for _ in 0..<30 {
            expect(script.fail(), equals: .zero)
            script.pass(.seconds(10))
        }
        expect(script.fail(), equals: .seconds(300))
        script.pass(.seconds(299))
        expect(script.fail(), equals: .seconds(1))
        script.pass(.seconds(1))
        expect(script.fail(times: 30).allSatisfy { $0 == .zero })
        expect(script.wait, equals: .seconds(600))
    }

    @Test("An account may fail a hundred times an hour from all addresses, and is then slowed, never locked")
    func account() {
        var script = ThrottleScenario(.account)
        expect(script.fail(times: 100).allSatisfy { $0 == .zero })
        for _ in 0..<500 {
            expect(script.wait, equals: .seconds(3))
            script.pass(.seconds(3))
            expect(script.fail(), equals: .zero)
        }
        script.pass(.seconds(3_600 - 1_500))
        expect(script.fail(times: 100).allSatisfy { $0 == .zero })
    }

    @Test(
        "A successful attempt is removed, including the wait that it caused", arguments: ThrottleKey.Scope.allCases)
    func takingBack(scope: ThrottleKey.Scope) {
        var script = ThrottleScenario(scope)
        let limit = Int(script.rule.limit)
        _ = script.fail(times: limit)
        #expect(script.wait > .zero)
        script.takeBack()
        expect(script.wait, equals: .zero)
        expect(script.fail(), equals: .zero)
        #expect(script.wait > .zero)
        for _ in 0..<limit { script.takeBack() }
        expect(script.state, equals: nil)
        script.takeBack()
        expect(script.state, equals: nil)
    }

    @Test(
        "A clock that jumps back extends no wait beyond the maximum", arguments: ThrottleKey.Scope.allCases
    )
    func clockJumpsBack(scope: ThrottleKey.Scope) {
        var generator = SeededGenerator(seed: UInt64(scope.rawValue))
        for _ in 0..<200 {
            var script = ThrottleScenario(scope)
            for _ in 0..<Int.random(in: 1...200, using: &generator) {
                script.pass(min(script.wait, .seconds(3)))
                _ = script.fail()
            }
            let back = Duration.seconds(Int.random(in: 0...100_000, using: &generator))
            script.pass(.zero - back)
            #expect(script.wait <= script.rule.maxDelay)
            // An attempt after the reported wait is allowed.
            script.pass(script.wait)
            expect(script.fail(), equals: .zero)
            #expect(script.wait <= script.rule.maxDelay)
        }
    }

    @Test("An attempt that began a moment earlier on another loop or replica is not delayed by a later one")
    func outOfOrder() {
        let now = SessionTime(seconds: 1_000)
        for scope in ThrottleKey.Scope.allCases {
            let rule = SignInThrottle.rule(scope)
            var state = rule.recordingAttempt(nil, now: now)
            expect(rule.wait(state, now: now - .milliseconds(3)), equals: nil)
            state = rule.recordingAttempt(state, now: now - .milliseconds(3))
            expect(rule.wait(state, now: now - .milliseconds(5)), equals: nil)
            expect(rule.removingAttempt(state, now: now)?.count, equals: 1)
        }
    }

    @Test(
        "The limit of a window is also one for a replica whose clock is a minute behind",
        arguments: [.address, .attempts, .attemptsOfAccount] as [ThrottleKey.Scope])
    func clockBehind(scope: ThrottleKey.Scope) {
        var script = ThrottleScenario(scope)
        expect(script.fail(times: Int(script.rule.limit)).allSatisfy { $0 == .zero })
        for behind in [Duration.milliseconds(1), .seconds(5), .seconds(60)] {
            expect(script.rule.wait(script.state, now: script.now - behind), equals: .seconds(600) + behind)
        }
    }

    @Test(
        "A wait remains one for an attempt with an earlier time, be it overtaken or of a replica whose clock is behind",
        arguments: ThrottleKey.Scope.allCases)
    func overtaken(scope: ThrottleKey.Scope) {
        var script = ThrottleScenario(scope)
        _ = script.fail(times: Int(script.rule.limit))
        for _ in 0..<12 where script.wait > .zero {
            for behind in [Duration.milliseconds(1), .seconds(5), .seconds(50)] {
                expect(script.rule.wait(script.state, now: script.now - behind), equals: script.wait + behind)
            }
            script.pass(script.wait)
            expect(script.fail(), equals: .zero)
        }
    }

    @Test("Failures counted by a replica whose clock is ahead delay the next attempts in full")
    func countedAhead() {
        let now = SessionTime(seconds: 1_700_000_000)
        for scope in ThrottleKey.Scope.allCases {
            let rule = SignInThrottle.rule(scope)
            for ahead in [Duration.milliseconds(1), .seconds(5), .seconds(300), .seconds(86_400)] {
                let state = ThrottleState(
                    count: rule.limit - 1, since: now + ahead, notBefore: SessionTime(milliseconds: 0))
                expect(rule.wait(state, now: now), equals: nil)
                let next = rule.recordingAttempt(state, now: now)
                expect(next.count, equals: rule.limit)
                expect(next.since, equals: now)
                // The lifetime is that of a state that began now, and not zero because the window would end too late.
                let plain = rule.recordingAttempt(
                    ThrottleState(count: rule.limit - 1, since: now, notBefore: SessionTime(milliseconds: 0)), now: now)
                expect(rule.wait(next, now: now), equals: rule.wait(plain, now: now))
                #expect((rule.wait(next, now: now) ?? .zero) > .zero)
                expect(rule.end(of: next), equals: rule.end(of: plain))
            }
        }
    }

    @Test("Removing an attempt leaves no failures that are counted from a future time")
    func takenBackAhead() throws {
        let now = SessionTime(seconds: 1_700_000_000)
        for scope in ThrottleKey.Scope.allCases {
            let rule = SignInThrottle.rule(scope)
            let state = ThrottleState(count: 3, since: now + .seconds(86_400), notBefore: SessionTime(milliseconds: 0))
            let left = try require(rule.removingAttempt(state, now: now))
            expect(left, equals: ThrottleState(count: 2, since: now, notBefore: SessionTime(milliseconds: 0)))
            #expect(rule.lifetime(of: left, now: now) <= rule.window)
        }
    }

    @Test("A clock that jumps back does not restore failures")
    func clockForgetsNothing() {
        var script = ThrottleScenario(.accountAndAddress)
        _ = script.fail(times: 4)
        script.pass(.seconds(-3_600))
        expect(script.fail(), equals: .zero)
        expect(script.fail(), equals: .seconds(1))
    }

    @Test("A clock that jumps far ahead only expires the count")
    func clockJumpsAhead() {
        var script = ThrottleScenario(.accountAndAddress)
        _ = script.fail(times: 5)
        script.pass(.seconds(10 * 365 * 86_400))
        expect(script.fail(times: 5).allSatisfy { $0 == .zero })
        expect(script.wait, equals: .seconds(1))
        // The extreme timestamps do not overflow.
        for end in [Int64.max, .min] {
            script.now = SessionTime(milliseconds: end)
            expect(script.fail(), equals: .zero)
        }
    }

    @Test("State is kept at most an hour after the last wait", arguments: ThrottleKey.Scope.allCases)
    func lifetimes(scope: ThrottleKey.Scope) throws {
        let rule = SignInThrottle.rule(scope)
        var state: ThrottleState?
        var now = SessionTime(seconds: 1_000_000)
        for _ in 0..<500 {
            let next = rule.recordingAttempt(state, now: now)
            let lifetime = rule.lifetime(of: next, now: now)
            #expect(lifetime > .zero)
            #expect(lifetime <= .seconds(3_900))
            #expect(lifetime >= (rule.wait(next, now: now) ?? .zero))
            expect(rule.wait(next, now: rule.end(of: next)), equals: nil)
            state = next
            now = now + (rule.wait(next, now: now) ?? .milliseconds(10))
        }
        let foreign = ThrottleState(
            count: .max, since: SessionTime(milliseconds: .max), notBefore: SessionTime(milliseconds: .max))
        #expect(rule.lifetime(of: foreign, now: now) <= rule.window + rule.maxDelay + .seconds(3_600))
        expect(rule.wait(foreign, now: now), equals: nil)
        expect(rule.recordingAttempt(foreign, now: now).count, equals: .max)
    }
}
