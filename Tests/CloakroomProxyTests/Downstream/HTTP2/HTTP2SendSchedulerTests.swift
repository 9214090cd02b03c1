import NIOHTTP2
import Testing

@testable import CloakroomProxy

@Suite("The scheduler of HTTP/2 streams (RFC 9113 §5.2)")
struct HTTP2SendSchedulerTests {
    private final class Stream: HTTP2ScheduledStream {
        var scheduling = HTTP2StreamScheduling()
        let name: String
        var body: Int
        var window: Int
        var isEndPending: Bool

        init(_ name: String, body: Int, window: Int = 65_535, isEndPending: Bool = false) {
            self.name = name
            self.body = body
            self.window = window
            self.isEndPending = isEndPending
        }

        var hasOutput: Bool { body > 0 || isEndPending }
        var hasBody: Bool { body > 0 }
        var isBlocked: Bool { body > 0 && window <= 0 }

        func send(upTo limit: Int) -> Int {
            let count = max(0, min(limit, body, window))
            body -= count
            window -= count
            if body == 0 { isEndPending = false }
            return count
        }
    }

    private typealias Scheduler = HTTP2SendScheduler<Stream>

    /// Runs one round.
    /// - Returns: What each turn sent, and whether another round is due.
    private static func round(
        _ scheduler: inout Scheduler, budget: Int = 1_000, isWritable: Bool = true
    ) -> (turns: [String], hasMore: Bool) {
        var turns: [String] = []
        scheduler.beginRound(budget: budget)
        while let turn = scheduler.next(isWritable: isWritable) {
            let sent = turn.stream.send(upTo: turn.limit)
            turns.append("\(turn.stream.name)\(sent)")
            scheduler.wrote(sent, on: turn.stream)
        }
        return (turns, scheduler.endRound())
    }

    @Test("Streams send in turns, each at most one quantum")
    func roundRobin() {
        var scheduler = Scheduler(quantum: 10)
        for stream in [Stream("a", body: 25), Stream("b", body: 5), Stream("c", body: 12)] { scheduler.enqueue(stream) }
        #expect(Self.round(&scheduler).turns == ["a10", "b5", "c10", "a10", "c2", "a5"])
        #expect(Self.round(&scheduler).turns.isEmpty)
    }

    @Test("A stream is queued once, and only if it has output")
    func queuedOnce() {
        var scheduler = Scheduler(quantum: 10)
        let stream = Stream("a", body: 0)
        scheduler.enqueue(stream)
        #expect(Self.round(&scheduler).turns.isEmpty)
        stream.body = 3
        scheduler.enqueue(stream)
        scheduler.enqueue(stream)
        #expect(Self.round(&scheduler).turns == ["a3"])
    }

    @Test("A stream blocked by its own window leaves the queue and does not block others")
    func streamWindow() {
        var scheduler = Scheduler(quantum: 10)
        let blocked = Stream("a", body: 20, window: 4)
        scheduler.enqueue(blocked)
        scheduler.enqueue(Stream("b", body: 11))
        #expect(Self.round(&scheduler).turns == ["a4", "b10", "b1"])
        blocked.window = 6
        #expect(Self.round(&scheduler).turns.isEmpty)
        scheduler.enqueue(blocked)
        #expect(Self.round(&scheduler).turns == ["a6"])
    }

    @Test("Streams blocked by the connection's window stay queued; an end without data needs no window")
    func connectionWindow() {
        var scheduler = Scheduler(quantum: 65_535)
        scheduler.enqueue(Stream("a", body: 65_535))
        #expect(scheduler.hasWindow(for: 65_535))
        #expect(Self.round(&scheduler, budget: 100_000).turns == ["a65535"])
        #expect(!scheduler.hasWindow(for: 1))
        scheduler.enqueue(Stream("b", body: 8))
        scheduler.enqueue(Stream("c", body: 0, isEndPending: true))
        #expect(Self.round(&scheduler).turns == ["c0"])
        scheduler.windowUpdate(5)
        #expect(Self.round(&scheduler).turns == ["b5"])
        scheduler.windowUpdate(5)
        #expect(Self.round(&scheduler).turns == ["b3"])
        #expect(scheduler.connectionWindow == 2)
    }

    @Test("Nothing is sent while the connection is not writable")
    func notWritable() {
        var scheduler = Scheduler(quantum: 10)
        scheduler.enqueue(Stream("a", body: 5))
        #expect(Self.round(&scheduler, isWritable: false).turns.isEmpty)
        #expect(Self.round(&scheduler).turns == ["a5"])
    }

    @Test("When the budget is used up, the remaining streams wait for the next round, in order")
    func budget() {
        var scheduler = Scheduler(quantum: 10)
        for name in ["a", "b", "c"] { scheduler.enqueue(Stream(name, body: 15)) }
        let first = Self.round(&scheduler, budget: 20)
        #expect(first.turns == ["a10", "b10"])
        #expect(first.hasMore)
        let second = Self.round(&scheduler)
        #expect(second.turns == ["c10", "a5", "b5", "c5"])
        #expect(!second.hasMore)
    }

    @Test("A stream that is queued during a round waits for the next one, before those that were blocked")
    func queuedMeanwhile() {
        var scheduler = Scheduler(quantum: 10)
        scheduler.enqueue(Stream("a", body: 10))
        scheduler.enqueue(Stream("b", body: 10))
        scheduler.beginRound(budget: 10)
        let turn = scheduler.next(isWritable: true)
        #expect(turn?.stream.name == "a")
        #expect(turn?.limit == 10)
        if let turn { scheduler.wrote(turn.stream.send(upTo: turn.limit), on: turn.stream) }
        scheduler.enqueue(Stream("c", body: 1))
        #expect(scheduler.next(isWritable: true)?.stream.name == nil)
        #expect(scheduler.endRound() == true)
        #expect(Self.round(&scheduler).turns == ["c1", "b10"])
    }

    @Test("Bytes of discarded frames are returned to the connection's window")
    func reconcile() {
        var scheduler = Scheduler(quantum: 100)
        scheduler.enqueue(Stream("a", body: 100))
        _ = Self.round(&scheduler)
        #expect(scheduler.connectionWindow == 65_435)
        scheduler.reconcile(sentBytes: 60)
        #expect(scheduler.connectionWindow == 65_475)
        scheduler.reconcile(sentBytes: 60)
        #expect(scheduler.connectionWindow == 65_475)
    }

    @Test("One flush is scheduled at a time")
    func flushRequests() {
        var scheduler = Scheduler(quantum: 10)
        #expect(scheduler.requestFlush() == true)
        #expect(scheduler.requestFlush() == false)
        scheduler.beginRound(budget: 1)
        // Requested during the round: another one is due.
        #expect(scheduler.requestFlush() == true)
        #expect(scheduler.endRound() == false)
        #expect(scheduler.requestFlush() == false)
    }

    @Test("The upstreams of touched streams are flushed once, in order")
    func touched() {
        var scheduler = Scheduler(quantum: 10)
        let streams = [Stream("a", body: 0), Stream("b", body: 0)]
        for stream in streams + streams { scheduler.touch(stream) }
        #expect(scheduler.takeStreamsToFlush().map(\.name) == ["a", "b"])
        #expect(scheduler.takeStreamsToFlush().isEmpty == true)
        scheduler.touch(streams[1])
        #expect(scheduler.takeStreamsToFlush().map(\.name) == ["b"])
    }

    @Test("Deferred resets are taken once")
    func deferredResets() {
        var scheduler = Scheduler(quantum: 10)
        scheduler.deferReset(1)
        scheduler.deferReset(3)
        #expect(scheduler.takeDeferredResets() == [1, 3])
        #expect(scheduler.takeDeferredResets() == [])
    }

    @Test("A closed connection sends nothing more, also in the middle of a round")
    func closed() {
        var scheduler = Scheduler(quantum: 10)
        let stream = Stream("a", body: 20)
        scheduler.enqueue(stream)
        scheduler.enqueue(Stream("b", body: 20))
        scheduler.beginRound(budget: 100)
        _ = scheduler.next(isWritable: true)
        stream.body = 0
        scheduler.removeAll()
        scheduler.wrote(0, on: stream)
        #expect(scheduler.next(isWritable: true)?.stream.name == nil)
        #expect(scheduler.endRound() == false)
        #expect(Self.round(&scheduler).turns.isEmpty)
    }
}
