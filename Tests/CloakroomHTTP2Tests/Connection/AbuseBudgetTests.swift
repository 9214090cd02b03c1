import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("The budget for what costs the gateway and not the client")
struct AbuseBudgetTests {
    private static let second: UInt64 = 1_000_000_000
    private let test = TestConnection()

    /// How often a charge fits into the budget of a window, after the client's acknowledgement of SETTINGS.
    private static func allowed(_ charges: AbuseBudget.Charge...) -> Int {
        let points = charges.reduce(0) { $0 + $1.rawValue }
        return (AbuseBudget.limit - AbuseBudget.Charge.smallFrame.rawValue) / points
    }

    /// Sends frames until the connection fails.
    /// - Returns: The number of frames before the failure; `nil` if all were handled.
    private static func flood(
        _ limit: Int = 6_000, _ test: TestConnection = TestConnection(), _ frames: (TestConnection, Int) -> [TestFrame]
    ) -> Int? {
        for count in 0..<limit {
            let events = test.send(frames(test, count))
            if let last = events.last, case .failed(let code) = last {
                expect(code, equals: .enhanceYourCalm)
                expect(test.output().last, equals: .goAway(last: test.connection.lastStreamID, .enhanceYourCalm))
                return count
            }
            _ = test.output()
        }
        return nil
    }

    @Test("A budget is exceeded by more than 10,000 points in 10 s")
    func limit() {
        var budget = AbuseBudget(now: 5)
        for _ in 0..<5_000 { budget.charge(.smallFrame, at: 5) }
        expect(!budget.isExceeded)
        budget.charge(.smallFrame, at: 5)
        expect(budget.isExceeded)
        var other = AbuseBudget(now: 0)
        for number in 0..<100_000 as Range<UInt64> { other.charge(.emptyFrame, at: number * 10_000_001) }
        expect(!other.isExceeded)
    }

    @Test("A window begins with the first charge after the end of the one before")
    func window() {
        var budget = AbuseBudget(now: 100)
        for _ in 0..<25 { budget.charge(.provokedReset, at: 100) }
        budget.charge(.smallFrame, at: 100 + AbuseBudget.window - 1)
        expect(budget.isExceeded)
        budget.charge(.smallFrame, at: 100 + AbuseBudget.window)
        expect(!budget.isExceeded)
    }

    @Test("CVE-2023-44487, rapid reset: 833 cancelled requests in 10 s are accepted, more are not")
    func rapidReset() {
        let count = Self.flood { test, number in
            let id = UInt32(2 * number + 1)
            return [test.headers(id, end: true), .reset(id)]
        }
        expect(count, equals: Self.allowed(.cancelledRequest))
    }

    @Test(
        "Rule 56, CVE-2023-44487: complete responses in between pay for 416 cancelled requests, local ones for none",
        arguments: [true, false])
    func mixedReset(isForwarded: Bool) {
        let count = Self.flood { test, number in
            let id = UInt32(4 * number + 1)
            test.send(test.headers(id, end: true))
            if isForwarded { test.respond(id, end: true) }
            test.connection.finish(test.slot(id), isForwarded: isForwarded)
            return [test.headers(id + 2, end: true), .reset(id + 2)]
        }
        let all = (AbuseBudget.limit + AbuseBudget.creditLimit) / AbuseBudget.Charge.cancelledRequest.rawValue
        expect(count, equals: (isForwarded ? all : Self.allowed(.cancelledRequest)))
    }

    @Test("What responses pay for is limited in each window anew")
    func credits() {
        var budget = AbuseBudget(now: 0)
        for window in 0..<3 as Range<UInt64> {
            for _ in 0..<1_250 {
                budget.charge(.cancelledRequest, at: window * AbuseBudget.window)
                budget.responded()
            }
            expect(!budget.isExceeded)
        }
        budget.charge(.cancelledRequest, at: 3 * AbuseBudget.window - 1)
        expect(budget.isExceeded)
    }

    @Test("Requests above the limit of streams are charged as cancelled ones")
    func refused() {
        let test = TestConnection(open: 1, streams: 1)
        expect(
            Self.flood(6_000, test) { test, number in [test.headers(UInt32(2 * number + 3), end: true)] },
            equals: Self.allowed(.cancelledRequest))
    }

    @Test("250 malformed requests in 10 s are accepted, more are not")
    func malformed() {
        let count = Self.flood { test, number in [test.headers(UInt32(2 * number + 1), [("x", "y")], end: true)] }
        expect(count, equals: Self.allowed(.malformedRequest))
        let oversized = Self.flood { test, number in
            test.connection.finish(0)
            let path = "/" + String(repeating: "a", count: 256)
            return [test.headers(UInt32(2 * number + 1), TestConnection.get.dropLast() + [(":path", path)], end: true)]
        }
        expect(oversized, equals: Self.allowed(.malformedRequest))
        let owner = Self.flood { test, number in
            test.connection.rejectRequest(test.slot(UInt32(2 * number - 1 < 0 ? 0 : 2 * number - 1)), now: test.now)
            return [test.headers(UInt32(2 * number + 1), end: true)]
        }
        expect(owner, equals: Self.allowed(.malformedRequest))
    }

    @Test("CVE-2025-8671, MadeYouReset: 25 provoked resets in 10 s are accepted, more are not, in each way")
    func provokedResets() {
        let ways: [(TestConnection, UInt32) -> [TestFrame]] = [
            { _, id in [.windowUpdate(id, 0)] },
            { _, id in [.windowUpdate(id, 0x7fff_ffff)] },
            { _, id in [.priority(id, on: id)] },
            { _, id in [TestFrame(2, stream: id, [0])] },
            { _, id in [.data(id, [], end: true), .data(id, "a")] },
            { test, id in [.data(id, [], end: true), test.headers(id, [("a", "b")], end: true)] },
            { test, id in [test.headers(id, [("a", "b")])] },
            { _, id in [.data(id, "ab")] },
        ]
        for way in ways {
            let count = Self.flood(6_000, TestConnection(streamWindow: 1)) { test, number in
                let id = UInt32(2 * number + 1)
                return [test.headers(id)] + way(test, id)
            }
            expect(count, equals: Self.allowed(.provokedReset, .smallFrame))
        }
        let late = TestConnection()
        late.send(late.headers(1, end: true))
        late.connection.finish(late.slot(1))
        expect(Self.flood(6_000, late) { _, _ in [.data(1, "a", end: true)] }, equals: Self.allowed(.provokedReset))
    }

    @Test(
        "CVE-2019-9512, 9515, 9518: floods of control frames and of empty frames end the connection",
        arguments: [
            (.ping(), .smallFrame), (.settings(), .settings), (.settingsAcknowledgement, .smallFrame),
            (.priority(1), .smallFrame), (.priority(9), .smallFrame), (.goAway(last: 0, .noError), .smallFrame),
            (.data(1, []), .emptyFrame), (.data(1, [], padding: 5), .emptyFrame), (TestFrame(0xfe), .emptyFrame),
            (TestFrame(0xfe, [1, 2, 3]), .emptyFrame), (.reset(3), .smallFrame),
            (.data(3, "a", end: true), .smallFrame),
            (.ping(0, acknowledgement: true), .smallFrame), (TestFrame(16, [0, 0, 0, 1]), .smallFrame),
            (.settings([4: 0, 4: 100_000]), .settings), (.settings([1: 100]), .settings),
            (.priority(99, on: 1), .smallFrame), (TestFrame(0xfe, stream: 9, [1, 2, 3]), .emptyFrame),
        ] as [(TestFrame, AbuseBudget.Charge)])
    func floods(_ frame: TestFrame, _ charge: AbuseBudget.Charge) {
        let test = TestConnection(open: 1, 3)
        test.connection.reset(test.slot(3), .cancel)
        _ = test.output()
        expect(Self.flood(11_000, test) { _, _ in [frame] }, equals: Self.allowed(charge))
    }

    @Test("CVE-2019-9511: a window that is opened byte by byte is bounded; updates that unblock nothing are free")
    func tinyWindows() {
        test.send(.settings([4: 0]))
        test.open(1)
        test.connection.setPending(100_000, on: test.slot(1))
        var count = 0
        while test.send(.windowUpdate(1, 15)).last != .failed(.enhanceYourCalm), count < 2_000 {
            count += 1
            while let turn = test.connection.nextTurn() {
                test.connection.beginData(turn.count, on: turn.slot, endsStream: false)
            }
        }
        expect((900...1_000).contains(count), "\(count)")
        let other = TestConnection()
        other.open(1)
        for _ in 0..<20_000 { expect(other.send(.windowUpdate(1, 1), .windowUpdate(0, 1)), equals: []) }
    }

    @Test("Trailers on streams that were reset are bounded")
    func lateBlocks() {
        let test = TestConnection(open: 1)
        test.connection.reset(test.slot(1), .cancel)
        expect(
            Self.flood(6_000, test) { test, _ in [test.headers(1, [("a", "b")], end: true)] },
            equals: Self.allowed(.emptyFrame))
    }

    @Test("A client that does not read gets at most 1,000 replies", arguments: [TestFrame.ping(), .settings()])
    func unsentReplies(_ frame: TestFrame) {
        var failed: Int?
        for count in 0..<2_000 where failed == nil {
            test.now += 100 * Self.second
            if test.send(frame) == [.failed(.enhanceYourCalm)] { failed = count }
        }
        expect(failed, equals: 1_000)
        #expect(test.connection.output.readableBytes < 20_000)
    }

    @Test("Replies that were sent do not count")
    func sentReplies() {
        for _ in 0..<5_000 {
            test.now += Self.second
            expect(test.send(.ping()), equals: [])
            _ = test.output()
        }
    }

    @Test("A SETTINGS frame with thousands of entries is charged for those after the first 32")
    func largeSettings() {
        let entries = (0..<2_730 as Range<UInt32>).flatMap { number -> [UInt8] in [0, 4] + TestFrame.number(number) }
        expect(Self.flood { _, _ in [TestFrame(4, entries)] }, equals: 0)
        let small = TestFrame(4, Array(entries.prefix(32 * 6)))
        expect(Self.flood { _, _ in [small] }, equals: Self.allowed(.settings))
        let hundred = TestFrame(4, Array(entries.prefix(100 * 6)))
        #expect(Self.flood { _, _ in [hundred] } ?? .max < 20)
    }

    @Test("Useful work pays for small frames that accompany it, and not for resets")
    func credit() {
        let count = Self.flood { test, number in
            let id = UInt32(4 * number + 1)
            test.send(test.headers(id, TestConnection.post))
            test.connection.reset(test.slot(id), .cancel)
            // Data that nothing needs.
            return [
                .data(id, count: 1_024), .data(id, count: 1_024), .data(id, count: 1_024), .data(id, count: 1_024),
                test.headers(id + 2, end: true), .reset(id + 2),
            ]
        }
        expect(count, equals: Self.allowed(.cancelledRequest, .smallFrame, .smallFrame, .smallFrame, .smallFrame))
    }
}
