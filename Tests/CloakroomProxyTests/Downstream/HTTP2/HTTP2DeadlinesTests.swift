import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Deadlines of an HTTP/2 connection")
struct HTTP2DeadlinesTests {
    private static let quiet = HTTP2Deadlines.quietTime

    /// Input that ended after a complete frame.
    private static func complete(_ deadlines: inout HTTP2Deadlines, expiry: UInt64) {
        deadlines.received(
            isFramePartial: false, isFrameComplete: true, isInHeaderBlock: false, expiry: expiry)
    }

    @Test("Without a deadline nothing expires")
    func none() {
        var deadlines = HTTP2Deadlines()
        expect(deadlines.next, equals: .max)
        expect(deadlines.expire(now: .max - 1), equals: .none)
    }

    @Test("A deadline expires at its time and not before, once", arguments: [99, 100, 101] as [UInt64])
    func idle(_ now: UInt64) {
        var deadlines = HTTP2Deadlines()
        deadlines.idle = 100
        expect(deadlines.next, equals: 100)
        expect(deadlines.expire(now: now), equals: (now < 100 ? .none : .idle))
        expect(deadlines.expire(now: now), equals: .none)
        expect(deadlines.next, equals: (now < 100 ? 100 : .max))
    }

    @Test("The earliest deadline of the streams counts, and a later one does not replace it")
    func streams() {
        var deadlines = HTTP2Deadlines()
        for deadline in [300, 200, 250, .max] as [UInt64] { deadlines.set(deadline) }
        expect(deadlines.next, equals: 200)
        expect(deadlines.expire(now: 200), equals: .streams)
        expect(deadlines.next, equals: .max)
    }

    // MARK: - Incomplete frames

    @Test("A part of a frame or of a header block is known until the last byte")
    func hasIncompleteFrame() {
        for isInHeaderBlock in [true, false] {
            var deadlines = HTTP2Deadlines()
            expect(!deadlines.hasIncompleteFrame)
            deadlines.received(
                isFramePartial: !isInHeaderBlock, isFrameComplete: isInHeaderBlock, isInHeaderBlock: isInHeaderBlock,
                expiry: 100)
            expect(deadlines.hasIncompleteFrame)
            Self.complete(&deadlines, expiry: 150)
            expect(!deadlines.hasIncompleteFrame)
        }
    }

    @Test("After an incomplete frame has expired there is no other deadline")
    func ended() {
        var deadlines = HTTP2Deadlines()
        deadlines.idle = 100
        deadlines.set(100)
        deadlines.received(isFramePartial: true, isFrameComplete: false, isInHeaderBlock: true, expiry: 100)
        expect(deadlines.expire(now: 100), equals: .incompleteFrame)
        expect(deadlines.next, equals: .max)
        expect(deadlines.expire(now: 1_000), equals: .none)
    }

    // MARK: - Without requests

    @Test("When the last stream has ended, memory is freed first and the connection ends later")
    func streamsEnded() {
        var deadlines = HTTP2Deadlines()
        deadlines.set(5_000)
        deadlines.streamsEnded(now: 1_000, idle: 3 * Self.quiet)
        expect(deadlines.next, equals: 1_000 + Self.quiet)
        expect(deadlines.expire(now: 5_000), equals: .none)
        expect(deadlines.expire(now: 1_000 + Self.quiet), equals: .quiet)
        expect(deadlines.next, equals: 1_000 + 3 * Self.quiet)
        expect(deadlines.expire(now: 1_000 + 3 * Self.quiet), equals: .idle)
        expect(deadlines.next, equals: .max)
    }

    @Test("A short idle time ends the connection without freeing memory before")
    func shortIdleTime() {
        var deadlines = HTTP2Deadlines()
        deadlines.streamsEnded(now: 0, idle: 10)
        expect(deadlines.expire(now: 10), equals: .idle)
    }

    @Test("A request clears what only applies without one")
    func requestBegan() {
        var deadlines = HTTP2Deadlines()
        deadlines.streamsEnded(now: 0, idle: 2 * Self.quiet)
        deadlines.requestBegan()
        expect(deadlines.next, equals: .max)
        deadlines.set(70)
        deadlines.received(isFramePartial: true, isFrameComplete: true, isInHeaderBlock: false, expiry: 80)
        deadlines.requestBegan()
        expect(deadlines.next, equals: 70)
        expect(deadlines.expire(now: 70), equals: .streams)
        expect(deadlines.next, equals: 80)
    }

    @Test("Deadlines that have passed expire one after the other, incomplete frames first")
    func order() {
        var deadlines = HTTP2Deadlines()
        deadlines.streamsEnded(now: 0, idle: 5)
        deadlines.set(7)
        let late = Self.quiet + 10
        var other = deadlines
        expect(deadlines.expire(now: late), equals: .streams)
        expect(deadlines.expire(now: late), equals: .quiet)
        expect(deadlines.expire(now: late), equals: .idle)
        expect(deadlines.expire(now: late), equals: .none)
        other.received(isFramePartial: true, isFrameComplete: false, isInHeaderBlock: false, expiry: 9)
        expect(other.expire(now: late), equals: .incompleteFrame)
    }
}
